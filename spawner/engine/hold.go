package engine

import (
	"context"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Hold has a job that has not begun to run wait until it is released, and takes it back from where it is queued.
func (m *Manager) Hold(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	return m.reorder(ctx, c, id, func(tx Tx, e *entry) error {
		switch {
		case e.Held:
			return nil
		case e.Phase == spawner.Pending || e.Phase == spawner.Leased:
			return tx.hold(ctx, e)
		case e.Remote && e.Phase == spawner.Starting && e.seen.Existence != spawner.Up && e.seen.Existence != spawner.Exited:
			return tx.withdraw(ctx, e)
		default:
			return errs.New(errs.Conflict, "job %s is %s: one that has begun cannot be held", id, e.Phase).
				With("requeue it to have it begin anew later, or cancel it")
		}
	})
}

func (tx Tx) hold(ctx context.Context, e *entry) error {
	if e.Phase == spawner.Leased {
		return tx.requeue(ctx, e, "Its owner has it wait", func(e *entry) { e.Held = true })
	}
	err := tx.change(ctx, e, func(e *entry) { e.Held = true })
	if err == nil {
		tx.note(e, spawner.Event{Percent: 0, Message: "Its owner has it wait"})
	}
	return err
}

// withdraw has a job taken back from a Remote, to be held here. Whether it is queued there, or has begun since
// the last look, is seen when that is done: as long as it may run on, it is the same run.
func (tx Tx) withdraw(ctx context.Context, e *entry) error {
	return tx.takeBack(ctx, e, "Its owner has it wait: it is taken back from "+tx.m.at(e.Backend), func(e *entry) { e.Held, e.Withdrawn = true, true })
}

// withdraw takes a job back from a Remote, unless it has begun there.
func (m *Manager) withdraw(ctx context.Context, e entry, r spawner.Remote) error {
	ctx, cancel := context.WithTimeout(ctx, backendPatience)
	defer cancel()
	if err := r.Withdraw(ctx, e.ID); errs.Is(err, errs.Conflict) {
		return m.resume(ctx, e)
	} else if err != nil {
		return err
	}
	m.queue.AddAfter(e.ID, lookAgain)
	return nil
}

// resume lets a job go on that was to be taken back, and has begun.
func (m *Manager) resume(ctx context.Context, e entry) error {
	tx := m.Begin()
	defer tx.End()
	now := m.work[e.ID]
	if now == nil || now.Rev != e.Rev {
		return nil
	}
	err := tx.change(ctx, now, func(e *entry) { e.Phase, e.Moving, e.Held, e.Withdrawn = spawner.Starting, false, false, false })
	if err == nil {
		tx.note(now, spawner.Event{Percent: 25, Message: "It has begun meanwhile, and goes on: requeue it to have it begin anew later"})
	}
	return err
}

// Release has a job go on that waits because its owner, or the batch system, holds it. What a batch system holds is
// asked for anew there.
func (m *Manager) Release(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	return m.reorder(ctx, c, id, func(tx Tx, e *entry) error {
		switch {
		case e.Held:
			err := tx.change(ctx, e, func(e *entry) { e.Held = false })
			if err == nil {
				tx.note(e, spawner.Event{Percent: 0, Message: "Released"})
			}
			return err
		case e.heldElsewhere():
			return tx.requeue(ctx, e, "Released: it is asked for anew at "+m.at(e.Backend), nil)
		default:
			return errs.New(errs.Conflict, "job %s is not held", id).With("`slipway jobs why` tells what it waits for")
		}
	})
}

// Requeue has a job begin anew: what runs of it is ended, what it has left is dropped, and it goes back in line.
func (m *Manager) Requeue(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	return m.reorder(ctx, c, id, func(tx Tx, e *entry) error {
		if e.Phase == spawner.Pending {
			return errs.New(errs.Conflict, "job %s has not begun: it waits in line", id).With("`slipway jobs why` tells for what; hold it to have it wait longer")
		}
		return tx.requeue(ctx, e, "Its owner has it begin anew", nil)
	})
}

// reorder does something with the place in line of a job that is wanted and not being ended.
func (m *Manager) reorder(ctx context.Context, c spawner.Caller, id spawner.ID, do func(Tx, *entry) error) (spawner.Workload, error) {
	tx := m.Begin()
	w, err := tx.reorder(c, id, do)
	tx.End()
	return m.vouch(ctx, w, err)
}

func (tx Tx) reorder(c spawner.Caller, id spawner.ID, do func(Tx, *entry) error) (spawner.Workload, error) {
	e, err := tx.entry(c, id)
	switch {
	case err != nil:
		return spawner.Workload{}, err
	case e.Kind != spawner.Job:
		return spawner.Workload{}, errs.New(errs.Invalid, "%s is a session: it does not wait in line as jobs do", id).With("stop it, and start it again")
	case e.Want != spawner.WantRunning || !e.Phase.Active():
		return spawner.Workload{}, errs.New(errs.Conflict, "job %s has ended, or is about to", id).With("submit it again")
	case e.heldElsewhere() && e.seen.HeldBy != "":
		return spawner.Workload{}, tx.m.forbidden(e)
	case e.Phase == spawner.Stopping && !(e.Held && e.Moving): // what is taken back may be released meanwhile
		return spawner.Workload{}, errs.New(errs.Conflict, "job %s is on its way back in line", id).With("try again in a few seconds")
	}
	err = do(tx, e)
	return e.Workload, err
}

// forbidden is the error of what somebody else holds than its owner: asked for anew, it would run all the same.
func (m *Manager) forbidden(e *entry) error {
	return errs.New(errs.Forbidden, "job %s is held at %s by %s: %s", e.ID, m.at(e.Backend), e.seen.HeldBy, e.seen.Reason).
		With("ask there to have it released: it goes on by itself then; or cancel it")
}

// waitsElsewhere reports whether a workload waits in the queue of a batch system, as far as is known.
func (e *entry) waitsElsewhere() bool {
	return e.Phase == spawner.Starting && e.Remote && (e.seen.Existence == spawner.Queued || e.seen.Existence == spawner.Held)
}

// heldElsewhere reports whether a batch system holds a workload that is to run, as far as is known: also one that has
// begun.
func (e *entry) heldElsewhere() bool {
	return e.Remote && e.seen.Existence == spawner.Held && (e.Phase == spawner.Starting || e.Phase == spawner.Booting || e.Phase == spawner.Running)
}
