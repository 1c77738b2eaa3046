package engine

import (
	"context"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/backends"
)

// withdraw takes a job back from a Remote, unless it has begun there.
func (t *terminator) withdraw(ctx context.Context, e Entry, r spawner.Remote) error {
	ctx, cancel := context.WithTimeout(ctx, backends.Patience)
	defer cancel()
	if err := r.Withdraw(ctx, e.ID); errs.Is(err, errs.Conflict) {
		return t.resume(ctx, e)
	} else if err != nil {
		return err
	}
	t.queue.AddAfter(e.ID, LookAgain)
	return nil
}

// resume lets a job go on that was to be taken back, and has begun.
func (t *terminator) resume(ctx context.Context, e Entry) error {
	tx := t.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return nil
	}
	err := tx.Change(
		ctx, now, func(e *Entry) { e.Phase, e.Moving, e.Held, e.Withdrawn = spawner.Starting, false, false, false },
	)
	if err == nil {
		tx.Note(now, spawner.Event{
			Percent: 25, Message: "It has begun meanwhile, and goes on: requeue it to have it begin anew later",
		})
	}
	return err
}

// WaitsElsewhere reports whether a workload waits in the queue of a batch system, as far as is known.
func (e *Entry) WaitsElsewhere() bool {
	return e.Phase == spawner.Starting &&
		(e.Seen.Existence == spawner.Queued || e.Seen.Existence == spawner.Held)
}

// HeldElsewhere reports whether a batch system holds a workload that is to run, as far as is known: also one that has
// begun.
func (e *Entry) HeldElsewhere() bool {
	return e.Seen.Existence == spawner.Held &&
		(e.Phase == spawner.Starting || e.Phase == spawner.Booting || e.Phase == spawner.Running)
}
