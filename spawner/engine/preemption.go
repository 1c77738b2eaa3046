package engine

import (
	"context"
	"fmt"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/culling"
)

// Lend is the policy of lending idle slices of sessions to jobs.
type Lend struct {
	On     bool
	After  time.Duration // for how long nothing went on in the session, and on its slice
	Recall time.Duration // between telling a job to end and killing it
	// Idle is called under the engine's lock and must not call the engine. It says since when nothing has run on the
	// slice of a workload, and that a job would find its memory free. False: it is not so, or nobody can say.
	Idle func(holder string, s gpu.Slice) (since time.Time, idle bool)
}

// CallBack has the slice of a session come back to it: its user is there again. The job that borrowed it goes
// back in line.
func (tx Tx) CallBack(ctx context.Context, session *Entry) {
	if session.Slice == nil {
		return
	}
	job := tx.r.work[tx.r.sched.Borrower(session.ID)]
	if job == nil || job.Phase == spawner.Stopping || appOf(*job) == control.Exited {
		return
	}
	tx.r.log.Info("recalling a lent slice", "session", session.ID, "job", job.ID)
	tx.Note(session, spawner.Event{
		Percent: -1, Message: "Your slice of the GPU was lent to a job while you were away, and is called back",
	})
	if err := tx.recallSlice(ctx, job); err != nil {
		tx.r.log.Warn("cannot recall a lent slice; will be repeated", "session", session.ID, "job", job.ID, "err", err)
		tx.r.queue.AddAfter(job.ID, retryAfter)
	}
}

func (tx Tx) recallSlice(ctx context.Context, job *Entry) error {
	why := fmt.Sprintf(
		"The owner of its slice of the GPU is back: it has %s to end, and goes back in line", tx.r.lend.Recall,
	)
	return tx.Requeue(ctx, job, why, nil)
}

// preempt repeats what CallBack could not save.
func (r *Records) preempt(ctx context.Context, e Entry) error {
	tx := r.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return nil
	}
	return tx.recallSlice(ctx, now)
}

// lends reports whether a session's slice can be lent now: it runs, its agent was heard and says that nobody has
// worked in it of late, and its slice idles. Only a slice of its own hardware is lent: on any other a job would disturb
// third ones.
func (v View) lends(id spawner.ID) bool {
	e := v.r.work[id]
	if e == nil || e.Kind.Batch() || e.Phase != spawner.Running || e.Want != spawner.WantRunning ||
		e.Slice.Tier != gpu.Hardware {
		return false
	}
	now := time.Now()
	quiet := now.Sub(clock.Latest(e.Up, e.Visited, e.Active))
	if quiet < v.r.lend.After || now.Sub(e.Pulse.Looked) > culling.FreshLook {
		return false
	}
	since, idle := v.r.lend.Idle(string(e.ID), *e.Slice)
	return idle && now.Sub(since) >= v.r.lend.After
}

// recalled reports whether something has gone on in the session whose slice a job has, since it has it.
func (r *Records) recalled(job Entry) bool {
	if job.Lender == "" {
		return false
	}
	v := r.View()
	defer v.End()
	since, borrowed := r.sched.BorrowedSince(job.ID)
	session := r.work[job.Lender]
	return borrowed && session != nil && session.Active.After(since)
}
