package engine

import (
	"context"
	"fmt"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/backends"
	"slipway/spawner/diagnosis"
	"slipway/spawner/jobfiles"
	"slipway/spawner/launch"
)

// terminator ends what runs of workloads, and gives back what they held when it was seen gone.
type terminator struct {
	*Records
	*deadlines
	agents   Agents
	files    *jobfiles.Store
	gpus     GPUs
	storage  launch.Storage
	interval time.Duration
}

// Evict ends a workload that harms others; its owner reads why. One that is ending already is left alone.
func (r *Records) Evict(ctx context.Context, id spawner.ID, reason, remedy string) error {
	tx := r.Begin()
	defer tx.End()
	e := r.work[id]
	if e == nil || !e.Phase.Active() || e.Phase == spawner.Pending || e.Phase == spawner.Stopping {
		return nil
	}
	r.log.Warn("evicting", "id", id, "owner", e.Owner, "why", reason)
	err := tx.Finish(
		ctx, e,
		spawner.Outcome{Failed: true, ExitCode: 137, Reason: reason, Remedy: remedy, Cause: spawner.CauseCanceled},
	)
	if err == nil {
		e.Interrupt()
	}
	return err
}

// Mention writes a line into the events of a workload, and tells nobody.
func (r *Records) Mention(id spawner.ID, text string) {
	r.note(id, spawner.Event{Percent: -1, Message: text})
}

func (t *terminator) kill(ctx context.Context, e Entry) error {
	if r, ok := t.backends.Named(e.Backend).(spawner.Remote); ok && e.Withdrawing() {
		return t.withdraw(ctx, e, r)
	}
	if t.partsByItself(ctx, e) {
		return nil
	}
	grace := t.grace(e)
	ctx, cancel := context.WithTimeout(ctx, grace+backends.Patience)
	defer cancel()
	if err := t.part(ctx, e); err != nil {
		return err
	}
	if err := t.backends.Named(e.Backend).Stop(ctx, e.ID, grace); err != nil {
		return err
	}
	t.queue.AddAfter(e.ID, LookAgain)
	return nil
}

// killUnseen has ended what is not seen. That its backend cannot be asked for that either is told by who looks.
func (t *terminator) killUnseen(ctx context.Context, e Entry) error {
	tx := t.Begin()
	if now := t.work[e.ID]; now != nil {
		now.blindly = time.Now()
	}
	tx.End()
	err := t.kill(ctx, e)
	if errs.Is(err, errs.Unavailable) {
		t.log.Debug("cannot end a workload that is not seen", "id", e.ID, "err", err)
		return nil
	}
	return err
}

func (t *terminator) cleanup(ctx context.Context, e Entry) error {
	ctx, cancel := context.WithTimeout(ctx, 2*backends.Patience)
	defer cancel()
	if err := t.backends.Named(e.Backend).Remove(ctx, e.ID); err != nil {
		return err
	}
	t.queue.AddAfter(e.ID, LookAgain)
	return nil
}

// release gives a workload's resources back: it was seen gone, or has only waited. Where nothing else was printed that
// says why, what its first process printed does.
func (t *terminator) release(ctx context.Context, e Entry, o spawner.Observation) error {
	t.agents.Close(e.ID)
	if t.storage != nil {
		t.storage.Close(e.ID)
	}
	if err := t.files.ClearRun(e.ID); err != nil {
		return err
	}
	lost := e.lostAll()
	changed, err := t.vacate(ctx, e, func(e *Entry) {
		e.Phase, e.Begun, e.Status, e.Secrets, e.Sealed = spawner.Stopped, false, control.Status{}, nil, nil
		e.Slice, e.Lender, e.Moving, e.Withdrawn = nil, "", false, false
		if e.Outcome == nil {
			out := t.ended(e, t.Kind(e.Kind).Canceled(*e))
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
	if released := t.Kind(e.Kind).Released; released != nil {
		released(e)
	}
	t.bidFarewell(e.ID)
	return nil
}

// bidFarewell tells a workload's end to who follows its events.
func (r *Records) bidFarewell(id spawner.ID) {
	tx := r.Begin()
	defer tx.End()
	if e := r.work[id]; e != nil && e.Phase == spawner.Stopped {
		tx.Note(e, diagnosis.Farewell(e.Workload))
	}
}

// forget drops a workload of which nothing is left.
func (t *terminator) forget(ctx context.Context, e Entry) error {
	if t.needed(&e.Workload) { // they were told, and are quick
		t.queue.AddAfter(e.ID, 5*LookAgain)
		return nil
	}
	t.agents.Close(e.ID)
	if t.storage != nil {
		if err := t.storage.Forget(e.ID); err != nil {
			return err
		}
	}
	if err := t.files.Remove(e.ID); err != nil {
		return err
	}
	if err := t.deleteRecord(ctx, e); err != nil {
		return fmt.Errorf("forget %s: %w", e.ID, err)
	}
	t.files.ClearBundle(e.Bundle)
	t.log.Info("workload forgotten", "id", e.ID, "owner", e.Owner)
	return nil
}

// deleteRecord drops the record of a workload.
func (t *terminator) deleteRecord(ctx context.Context, e Entry) error {
	tx := t.Begin()
	defer tx.End()
	if err := tx.Delete(ctx, bucket, string(e.ID)); err != nil {
		return err
	}
	if now := t.work[e.ID]; now != nil {
		t.sched.Drop(now.Workload)
		t.index.drop(now.Workload)
		delete(t.work, e.ID)
		tx.Announce(now)
		t.files.Uncount(now.ID)
		if !tx.Needed(now.Bundle) {
			t.files.UncountBundle(now.Bundle)
		}
		tx.wakeHeads()
	}
	return nil
}

// partPatience is for how long it is tried to have processes leave a GPU in an orderly way. A driver that has died must
// not keep what is to end from ending.
const partPatience = 30 * time.Second

// part has a workload's processes leave the GPU before they are ended.
func (t *terminator) part(ctx context.Context, e Entry) error {
	if e.Slice == nil || t.gpus == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, partPatience)
	defer cancel()
	err := t.gpus.Part(ctx, e.SliceHolder(), *e.Slice)
	if err != nil && time.Since(t.phaseBegan(e)) >= partPatience {
		t.log.Warn(
			"a workload is killed on its GPU, which may disturb others there", "id", e.ID, "slice", e.Slice, "err", err,
		)
		return nil
	}
	return err
}

// BackInLine saves an edit by which a workload that was seen gone goes back in line. What a job had printed and left is
// dropped. It reports false where its record has changed.
func (t *terminator) BackInLine(ctx context.Context, e Entry, edit func(*Entry)) (bool, error) {
	t.agents.Close(e.ID)
	if err := t.files.ClearTry(e.ID); err != nil {
		return false, err
	}
	return t.vacate(ctx, e, edit)
}

// requeue puts a workload that was seen gone back in line: its slice is free, its inputs and secrets are kept.
func (t *terminator) requeue(ctx context.Context, e Entry) error {
	_, err := t.BackInLine(ctx, e, func(e *Entry) {
		e.toLine()
		if e.Withdrawn {
			e.Withdrawn, e.Moves = false, e.Moves+1
		}
	})
	return err
}

// vacate saves that a workload was seen gone, and tells the GPUs so before anybody else can have its place.
func (t *terminator) vacate(ctx context.Context, e Entry, edit func(*Entry)) (bool, error) {
	tx := t.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return false, nil
	}
	err := tx.Change(ctx, now, edit)
	if err == nil && e.Slice != nil && t.gpus != nil && !t.sched.StillHeld(e.Workload) {
		t.gpus.Release(e.SliceHolder(), *e.Slice)
	}
	return true, err
}
