package batch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
)

// Watch calls changed for every workload that looks different, until ctx ends. It makes looking cheap, not needless: what
// it misses, a later look finds. When it returns no look goes on.
func (b *Backend) Watch(ctx context.Context, changed func(spawner.ID)) error {
	defer b.past.Finish()
	b.queue.Watch(ctx, Watch{
		Every: b.cfg.PollEvery, Soon: b.soon, Delay: eventDelay, Missed: b.doubts, Changed: changed, Log: b.log,
		System: b.Title(),
	})
	return nil
}

// doubts returns the workloads of which it is to be found out whether their jobs are gone.
func (b *Backend) doubts() []spawner.ID {
	return slices.DeleteFunc(b.queue.Missing(), func(id spawner.ID) bool {
		rec, known, err := b.records.Get(id)
		settled := err == nil && (!known || !rec.Lives())
		if settled {
			b.queue.Forget(id)
		}
		return settled
	})
}

// eventDelay is how long after a batch system has noted an event of a job its queue may not show it yet.
const eventDelay = time.Second

// due returns from which time on a look shows a workload as it is, if one from t on does unless something has happened:
// some systems note events of a job in a file of its sandbox. A time that has not come yet is none of theirs.
func (b *Backend) due(r Record, t time.Time) time.Time {
	if b.cfg.Events == "" {
		return t
	}
	info, err := os.Lstat(filepath.Join(string(b.box(r)), b.cfg.Events))
	now := time.Now()
	if err != nil || info.ModTime().After(now) {
		return t
	}
	if seen := info.ModTime().Add(eventDelay); seen.Before(now) {
		return clock.Latest(t, seen)
	}
	select {
	case b.soon <- struct{}{}:
	default:
	}
	return now
}
