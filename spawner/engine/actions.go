package engine

import (
	"context"
	"time"

	"slipway/spawner"
	"slipway/spawner/lifecycle"
)

// act carries out one action. An error means that it is to be repeated.
func (m *Manager) act(ctx context.Context, e Entry, a lifecycle.Action, o spawner.Observation) error {
	if restsOnRecord(a, e.Kind) {
		if err := m.cfg.Store.Sync(ctx); err != nil {
			return err
		}
	}
	switch a {
	case lifecycle.Lease:
		return m.starter.lease(ctx, e)
	case lifecycle.Start:
		return m.abortable(ctx, e, m.starter.start)
	case lifecycle.Prewarm:
		return m.starter.prepare(ctx, e)
	case lifecycle.LaunchApp:
		return m.abortable(ctx, e, m.starter.hand)
	case lifecycle.Adopt:
		_, err := m.Change(ctx, e, func(e *Entry) { e.Phase = spawner.Booting })
		return err
	case lifecycle.MarkRunning:
		return m.starter.welcome(ctx, e)
	case lifecycle.Collect:
		return m.abortable(ctx, e, func(ctx context.Context, e Entry) error { return m.stager.collect(ctx, e, o) })
	case lifecycle.Fail:
		return m.fail(ctx, e, m.stager.whyFailed(e, o))
	case lifecycle.Expire:
		return m.Finish(ctx, e, m.Kind(e.Kind).Expired(e))
	case lifecycle.Terminate:
		return m.Finish(ctx, e, m.Kind(e.Kind).Canceled(e))
	case lifecycle.Kill:
		if o.Existence == spawner.Unknown {
			return m.killUnseen(ctx, e)
		}
		return m.kill(ctx, e)
	case lifecycle.ReplaceSlice:
		return m.starter.leaveSlice(ctx, e, e.Status.Fault, true)
	case lifecycle.Preempt:
		return m.preempt(ctx, e)
	case lifecycle.HandleEviction:
		return m.handleEviction(ctx, e, o)
	case lifecycle.Checkpoint:
		return m.abortable(ctx, e, m.stager.save)
	case lifecycle.Requeue:
		return m.requeue(ctx, e)
	case lifecycle.RetryJob:
		return m.Kind(e.Kind).Retry(ctx, e)
	case lifecycle.EndBackoff:
		return m.Kind(e.Kind).EndBackoff(ctx, e)
	case lifecycle.Resume:
		return m.resume(ctx, e)
	case lifecycle.Release:
		return m.release(ctx, e, o)
	case lifecycle.Cleanup:
		return m.cleanup(ctx, e)
	case lifecycle.ClearDependency:
		return m.Kind(e.Kind).ClearDependency(ctx, e)
	case lifecycle.Retire:
		_, err := m.Change(
			ctx, e, func(e *Entry) { e.Phase, e.Secrets, e.Sealed = spawner.Removing, nil, nil },
		)
		return err
	case lifecycle.Delete:
		return m.forget(ctx, e)
	default:
		return nil
	}
}

// restsOnRecord reports whether something would be wrong if the host crashed during an action and took the newest
// changes of the record with it: a container without a lease, an app started twice, a job whose outcome nobody knows
// and nobody can ask for.
func restsOnRecord(a lifecycle.Action, k spawner.Kind) bool {
	switch a {
	case lifecycle.Start, lifecycle.LaunchApp, lifecycle.Cleanup, lifecycle.Requeue, lifecycle.RetryJob, lifecycle.Delete:
		return true
	case lifecycle.Kill:
		return k.Batch()
	default:
		return false
	}
}

// LookAgain is how soon the Manager looks again after an action that changed the world but not the record. What failed
// waits for retryAfter.
const LookAgain = 2 * time.Millisecond

// abortable does what may take long in a way that ends as soon as the workload's owner changes her mind; the next look
// then decides anew.
func (m *Manager) abortable(ctx context.Context, e Entry, do func(context.Context, Entry) error) error {
	own, abort := context.WithCancel(ctx)
	defer abort()
	if !m.setAbort(e, abort) {
		return nil
	}
	defer m.setAbort(e, nil)
	err := do(own, e)
	if own.Err() != nil {
		m.queue.Add(e.ID)
		return ctx.Err()
	}
	return err
}

// setAbort notes how to end what is being done. It reports false when the record has changed since e was read.
func (r *Records) setAbort(e Entry, abort context.CancelFunc) bool {
	tx := r.Begin()
	defer tx.End()
	now := r.work[e.ID]
	if now == nil || now.Launch != e.Launch || (abort != nil && now.Rev != e.Rev) {
		return false
	}
	now.abort = abort
	return true
}

// Interrupt ends what is being done for a workload and may take long.
func (e *Entry) Interrupt() {
	if e.abort != nil {
		e.abort()
	}
}

// Finish notes how a workload came to its end and has it ended. Whatever it was, it is not wanted running any more.
func (r *Records) Finish(ctx context.Context, e Entry, o spawner.Outcome) error {
	if use := r.Kind(e.Kind).SliceUse; use != nil && e.Slice != nil {
		o.GPU = use(e.Workload)
	}
	tx := r.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return nil
	}
	return tx.Finish(ctx, now, o)
}

// fail is Finish of what has failed, or has ended by itself.
func (r *Records) fail(ctx context.Context, e Entry, o spawner.Outcome) error {
	if complete := r.Kind(e.Kind).Ailment; complete != nil && o.Failed && !o.Canceled {
		o = complete(e, o)
	}
	return r.Finish(ctx, e, o)
}

// Finish is that of the Manager, of a workload as it stands.
func (tx Tx) Finish(ctx context.Context, e *Entry, o spawner.Outcome) error {
	if ending := tx.r.Kind(e.Kind).Ending; ending != nil {
		ending(tx, e, o)
	}
	return tx.Change(ctx, e, func(e *Entry) { e.Finish(tx.r.ended(e, o)) })
}

// Finish makes e one that is being ended at o.At, with outcome o. A job that is tried again stays wanted.
func (e *Entry) Finish(o spawner.Outcome) {
	if e.Outcome, e.Secrets, e.Sealed = &o, nil, nil; e.Phase != spawner.Pending { // who only waited held nothing
		e.Phase = spawner.Stopping
	}
	if e.Want == spawner.WantRunning && !lifecycle.WillRetry(e.Workload) {
		e.Want = spawner.WantStopped
		lifecycle.GiveUp(e.Outcome, e.Workload)
	}
}
