package batch

import (
	"context"
	"log/slog"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
)

// restFactor is how many times as long as a look takes nobody looks: the batch system has other users.
const restFactor = 10

// Watch says how a queue is watched, and who is told.
type Watch struct {
	Every time.Duration // between two looks, at least
	// soon says that something goes on, which a look shows after delay.
	Soon    <-chan struct{}
	Delay   time.Duration
	Missed  func() []spawner.ID // workloads of which it is to be found out whether their jobs are gone
	Changed func(spawner.ID)
	System  string // the batch system's name, for the log
	Log     *slog.Logger
}

// Watch looks at the queue from time to time and calls w.changed for every workload that looks different, until ctx
// ends. When it returns no look goes on.
func (q *Queue) Watch(ctx context.Context, w Watch) {
	defer q.Finish()
	var last *Snapshot
	down := false
	for {
		now, err := q.Since(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !down:
			w.Log.Warn(w.System+"'s queue cannot be seen", "error", err)
		case err == nil && down:
			w.Log.Info(w.System + "'s queue can be seen again")
		}
		rest := w.Every
		if down = err != nil; !down {
			for _, id := range append(differences(last, now), w.Missed()...) {
				w.Changed(id)
			}
			last, rest = now, max(rest, restFactor*now.took)
		}
		if !w.rest(ctx, rest) {
			return
		}
	}
}

// rest waits until the next look is due, or only for w.delay when something goes on. It reports false when ctx ends
// before.
func (w Watch) rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-w.Soon:
		return clock.Sleep(ctx, min(d, w.Delay))
	case <-time.After(d):
		return true
	}
}

// differences returns the workloads that two looks show differently. The first look of all shows no change.
func differences(before, now *Snapshot) []spawner.ID {
	if before == nil {
		return nil
	}
	var ids []spawner.ID
	for id, jobs := range now.Jobs {
		if !same(before.Jobs[id], jobs) {
			ids = append(ids, id)
		}
	}
	for id := range before.Jobs {
		if now.Jobs[id] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func same(x, y []Job) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i].Name != y[i].Name || x[i].Seen != y[i].Seen {
			return false
		}
	}
	return true
}
