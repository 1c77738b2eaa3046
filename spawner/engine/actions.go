package engine

import (
	"context"
	"fmt"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/backends"
	"slipway/spawner/diagnosis"
	"slipway/spawner/lifecycle"
	"slipway/spawner/place"
	"slipway/spawner/sched"
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
		return m.lease(ctx, e)
	case lifecycle.Start:
		return m.abortable(ctx, e, m.start)
	case lifecycle.Prewarm:
		return m.prepare(ctx, e)
	case lifecycle.LaunchApp:
		return m.abortable(ctx, e, m.hand)
	case lifecycle.Adopt:
		_, err := m.Change(ctx, e, func(e *Entry) { e.Phase = spawner.Booting })
		return err
	case lifecycle.MarkRunning:
		return m.welcome(ctx, e)
	case lifecycle.Collect:
		return m.abortable(ctx, e, func(ctx context.Context, e Entry) error { return m.collect(ctx, e, o) })
	case lifecycle.Fail:
		return m.fail(ctx, e, m.whyFailed(e, o))
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
		return m.leaveSlice(ctx, e, e.Status.Fault, true)
	case lifecycle.Preempt:
		return m.recall(ctx, e)
	case lifecycle.HandleEviction:
		return m.handleEviction(ctx, e, o)
	case lifecycle.Checkpoint:
		return m.abortable(ctx, e, m.save)
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

// lookAgain is how soon the Manager looks again after an action that changed the world but not the record. What failed
// waits for retryAfter.
const LookAgain = 2 * time.Millisecond

func (m *Manager) kill(ctx context.Context, e Entry) error {
	if r, ok := m.Backends.Named(e.Backend).(spawner.Remote); ok && e.Withdrawing() {
		return m.withdraw(ctx, e, r)
	}
	if m.partsByItself(ctx, e) {
		return nil
	}
	grace := m.grace(e)
	ctx, cancel := context.WithTimeout(ctx, grace+backends.Patience)
	defer cancel()
	if err := m.part(ctx, e); err != nil {
		return err
	}
	if err := m.Backends.Named(e.Backend).Stop(ctx, e.ID, grace); err != nil {
		return err
	}
	m.queue.AddAfter(e.ID, LookAgain)
	return nil
}

// killUnseen has ended what is not seen. That its backend cannot be asked for that either is told by who looks.
func (m *Manager) killUnseen(ctx context.Context, e Entry) error {
	tx := m.Begin()
	if now := m.work[e.ID]; now != nil {
		now.blindly = time.Now()
	}
	tx.End()
	err := m.kill(ctx, e)
	if errs.Is(err, errs.Unavailable) {
		m.log.Debug("cannot end a workload that is not seen", "id", e.ID, "err", err)
		return nil
	}
	return err
}

func (m *Manager) cleanup(ctx context.Context, e Entry) error {
	ctx, cancel := context.WithTimeout(ctx, 2*backends.Patience)
	defer cancel()
	if err := m.Backends.Named(e.Backend).Remove(ctx, e.ID); err != nil {
		return err
	}
	m.queue.AddAfter(e.ID, LookAgain)
	return nil
}

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
func (m *Manager) setAbort(e Entry, abort context.CancelFunc) bool {
	tx := m.Begin()
	defer tx.End()
	now := m.work[e.ID]
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

// lease takes the workload's resources, when it is its turn and they are free: to save the phase is to take the lease.
func (m *Manager) lease(ctx context.Context, e Entry) error {
	tx := m.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return nil
	}
	if why := m.sched.NeverFits(now.Backend, now.Spec.Resources); why != "" { // the site has become smaller meanwhile
		return tx.Finish(ctx, now, spawner.Outcome{
			Failed: true, ExitCode: 1, Reason: "this can never start here: " + why, Remedy: "ask for less",
		})
	}
	if err := m.sched.CheckGPU(now.LocalGPU()); err != nil {
		return tx.Finish(ctx, now, diagnosis.FromError(err))
	}
	q, g := m.sched.Turn(&now.Workload)
	if m.sched.Spent(&now.Workload, q) {
		return tx.Finish(ctx, now, unusable(now.Bad))
	}
	if why := q.String(); why != "" {
		if m.sched.IsHead(&now.Workload) {
			tx.giveWay(ctx, now)
		}
		if now.Journal.Latest().Message != why {
			tx.Note(now, spawner.Event{Percent: 5, Message: why})
		}
		return nil
	}
	err := tx.Change(ctx, now, func(e *Entry) { e.Phase, e.Slice, e.Lender = spawner.Leased, g.Slice, g.Lender })
	if err == nil {
		m.sched.Sent(now.Workload)
		tx.Note(now, spawner.Event{Percent: 10, Message: m.leased(now)})
	}
	return err
}

// leased says in words what a workload holds now, or asks for.
func (m *Manager) leased(e *Entry) string {
	return place.Of(&e.Workload).Leased(&e.Workload, m.At(e.Backend), fmt.Sprintf(
		"%s and %s of memory", sched.FormatCPUs(e.Spec.Resources.CPUs), units.MemoryWords(e.Spec.Resources.Memory),
	))
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
func (m *Manager) fail(ctx context.Context, e Entry, o spawner.Outcome) error {
	if complete := m.Kind(e.Kind).Ailment; complete != nil && o.Failed && !o.Canceled {
		o = complete(e, o)
	}
	return m.Finish(ctx, e, o)
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

// release gives a workload's resources back: it was seen gone, or has only waited. Where nothing else was printed that
// says why, what its first process printed does.
func (m *Manager) release(ctx context.Context, e Entry, o spawner.Observation) error {
	m.cfg.Agents.Close(e.ID)
	if m.cfg.Launch.Storage != nil {
		m.cfg.Launch.Storage.Close(e.ID)
	}
	if err := m.files.ClearRun(e.ID); err != nil {
		return err
	}
	lost := e.lostAll()
	changed, err := m.vacate(ctx, e, func(e *Entry) {
		e.Phase, e.Begun, e.Status, e.Secrets, e.Sealed = spawner.Stopped, false, control.Status{}, nil, nil
		e.Slice, e.Lender, e.Moving, e.Withdrawn = nil, "", false, false
		if e.Outcome == nil {
			out := m.ended(e, m.Kind(e.Kind).Canceled(*e))
			e.Outcome = &out
		}
		if lost {
			out := diagnosis.WithLost(*e.Outcome, NotBack)
			e.Outcome = &out
		}
		if e.Outcome.Failed && e.Outcome.Tail == "" {
			told := *e.Outcome
			told.Tail = o.Tail
			e.Outcome = &told
		}
	})
	if !changed || err != nil {
		return err
	}
	if released := m.Kind(e.Kind).Released; released != nil {
		released(e)
	}
	m.bidFarewell(e.ID)
	return nil
}

// bidFarewell tells a workload's end to who follows its events.
func (m *Manager) bidFarewell(id spawner.ID) {
	tx := m.Begin()
	defer tx.End()
	if e := m.work[id]; e != nil && e.Phase == spawner.Stopped {
		tx.Note(e, diagnosis.Farewell(e.Workload))
	}
}

// forget drops a workload of which nothing is left.
func (m *Manager) forget(ctx context.Context, e Entry) error {
	if m.needed(&e.Workload) { // they were told, and are quick
		m.queue.AddAfter(e.ID, 5*LookAgain)
		return nil
	}
	m.cfg.Agents.Close(e.ID)
	if m.cfg.Launch.Storage != nil {
		if err := m.cfg.Launch.Storage.Forget(e.ID); err != nil {
			return err
		}
	}
	if err := m.files.Remove(e.ID); err != nil {
		return err
	}
	if err := m.deleteRecord(ctx, e); err != nil {
		return fmt.Errorf("forget %s: %w", e.ID, err)
	}
	m.files.ClearBundle(e.Bundle)
	m.log.Info("workload forgotten", "id", e.ID, "owner", e.Owner)
	return nil
}

// deleteRecord drops the record of a workload.
func (m *Manager) deleteRecord(ctx context.Context, e Entry) error {
	tx := m.Begin()
	defer tx.End()
	if err := tx.Delete(ctx, bucket, string(e.ID)); err != nil {
		return err
	}
	if now := m.work[e.ID]; now != nil {
		m.sched.Drop(now.Workload)
		m.index.drop(now.Workload)
		delete(m.work, e.ID)
		tx.Announce(now)
		m.files.Uncount(now.ID)
		if !tx.Needed(now.Bundle) {
			m.files.UncountBundle(now.Bundle)
		}
		tx.wakeHeads()
	}
	return nil
}
