package htcondor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"slipway/spawner"
)

// restFactor is how many times as long as a look takes nobody looks: the access point has other users.
const restFactor = 10

// Watch looks at the queue from time to time and calls changed for every workload that looks different, until ctx ends.
// It makes looking cheap, not needless: what it misses, a later look finds. When it returns no look goes on.
func (b *Backend) Watch(ctx context.Context, changed func(spawner.ID)) error {
	defer b.past.finish()
	defer b.queue.finish()
	var last *snapshot
	down := false
	for {
		now, err := b.queue.since(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !down:
			b.log.Warn("HTCondor's queue cannot be seen", "error", err)
		case err == nil && down:
			b.log.Info("HTCondor's queue can be seen again")
		}
		rest := b.cfg.PollEvery
		if down = err != nil; !down {
			for _, id := range append(differences(last, now), b.doubts()...) {
				changed(id)
			}
			last, rest = now, max(rest, restFactor*now.took)
		}
		if !b.rest(ctx, rest) {
			return nil
		}
	}
}

// doubts returns the workloads of which it is to be found out whether their jobs are gone.
func (b *Backend) doubts() []spawner.ID {
	return slices.DeleteFunc(b.queue.doubts(), func(id spawner.ID) bool {
		rec, known, err := b.records.get(id)
		settled := err == nil && (!known || !rec.lives())
		if settled {
			b.queue.forget(id)
		}
		return settled
	})
}

// rest waits until the next look is due, or a little longer than now when something goes on. It reports false when ctx
// ends before.
func (b *Backend) rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-b.soon:
		return pause(ctx, min(d, eventDelay))
	case <-time.After(d):
		return true
	}
}

// eventDelay is how long after HTCondor has noted an event of a job its queue may not show it yet.
const eventDelay = time.Second

// due returns from which time on a look shows a workload as it is, if one from t on does unless something has happened:
// HTCondor notes events of a job in a file here. A time that has not come yet is none of HTCondor's.
func (b *Backend) due(r record, t time.Time) time.Time {
	info, err := os.Lstat(filepath.Join(string(b.box(r)), eventsFile))
	now := time.Now()
	if err != nil || info.ModTime().After(now) {
		return t
	}
	if seen := info.ModTime().Add(eventDelay); seen.Before(now) {
		return latest(t, seen)
	}
	select {
	case b.soon <- struct{}{}:
	default:
	}
	return now
}

func latest(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// differences returns the workloads that two looks show differently. The first look of all shows no change.
func differences(before, now *snapshot) []spawner.ID {
	if before == nil {
		return nil
	}
	var ids []spawner.ID
	for id, jobs := range now.jobs {
		if !same(before.jobs[id], jobs) {
			ids = append(ids, id)
		}
	}
	for id := range before.jobs {
		if now.jobs[id] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func same(x, y []job) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i].name() != y[i].name() || x[i].observation() != y[i].observation() {
			return false
		}
	}
	return true
}
