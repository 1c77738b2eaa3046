package jobs

import (
	"context"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// Hold has a job that has not begun to run wait until it is released, and takes it back from where it is queued.
func (j *Jobs) Hold(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	return j.reorder(ctx, c, id, func(tx engine.Tx, e *engine.Entry) error {
		switch {
		case e.Held:
			return nil
		case e.Phase == spawner.Pending || e.Phase == spawner.Leased:
			return j.hold(ctx, tx, e)
		case e.Remote && e.Phase == spawner.Starting && e.Seen.Existence != spawner.Up &&
			e.Seen.Existence != spawner.Exited:
			return j.withdraw(ctx, tx, e)
		default:
			return errs.New(errs.Conflict, "job %s is %s: one that has begun cannot be held", id, e.Phase).
				With("requeue it to have it begin anew later, or cancel it")
		}
	})
}

func (j *Jobs) hold(ctx context.Context, tx engine.Tx, e *engine.Entry) error {
	if e.Phase == spawner.Leased {
		return tx.Requeue(ctx, e, "Its owner has it wait", func(e *engine.Entry) { e.Held = true })
	}
	err := tx.Change(ctx, e, func(e *engine.Entry) { e.Held = true })
	if err == nil {
		tx.Note(e, spawner.Event{Percent: 0, Message: "Its owner has it wait"})
	}
	return err
}

// withdraw has a job taken back from a Remote, to be held here. Whether it is queued there, or has begun since
// the last look, is seen when that is done: as long as it may run on, it is the same run.
func (j *Jobs) withdraw(ctx context.Context, tx engine.Tx, e *engine.Entry) error {
	return tx.TakeBack(
		ctx, e, "Its owner has it wait: it is taken back from "+j.engine.At(e.Backend),
		func(e *engine.Entry) { e.Held, e.Withdrawn = true, true },
	)
}

// Release has a job go on that waits because its owner, or the batch system, holds it. What a batch system holds is
// asked for anew there.
func (j *Jobs) Release(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	return j.reorder(ctx, c, id, func(tx engine.Tx, e *engine.Entry) error {
		switch {
		case e.Held:
			err := tx.Change(ctx, e, func(e *engine.Entry) { e.Held = false })
			if err == nil {
				tx.Note(e, spawner.Event{Percent: 0, Message: "Released"})
			}
			return err
		case e.HeldElsewhere():
			return tx.Requeue(ctx, e, "Released: it is asked for anew at "+j.engine.At(e.Backend), nil)
		default:
			return errs.New(errs.Conflict, "job %s is not held", id).With("`slipway jobs why` tells what it waits for")
		}
	})
}

// Requeue has a job begin anew: what runs of it is ended, what it has left is dropped, and it goes back in line.
func (j *Jobs) Requeue(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	return j.reorder(ctx, c, id, func(tx engine.Tx, e *engine.Entry) error {
		if e.Phase == spawner.Pending {
			return errs.New(errs.Conflict, "job %s has not begun: it waits in line", id).With("`slipway jobs why` tells for what; hold it to have it wait longer")
		}
		return tx.Requeue(ctx, e, "Its owner has it begin anew", nil)
	})
}

// reorder does something with the place in line of a job that is wanted and not being ended.
func (j *Jobs) reorder(
	ctx context.Context, c spawner.Caller, id spawner.ID, do func(engine.Tx, *engine.Entry) error,
) (spawner.Workload, error) {
	tx := j.engine.Begin()
	w, err := j.reorderIn(tx, c, id, do)
	tx.End()
	return j.engine.Vouch(ctx, w, err)
}

func (j *Jobs) reorderIn(
	tx engine.Tx, c spawner.Caller, id spawner.ID, do func(engine.Tx, *engine.Entry) error,
) (spawner.Workload, error) {
	e, err := tx.Find(c, id)
	switch {
	case err != nil:
		return spawner.Workload{}, err
	case e.Kind.Session():
		return spawner.Workload{}, errs.New(errs.Invalid, "%s is a session: it does not wait in line as jobs do", id).
			With("stop it, and start it again")
	case e.Want != spawner.WantRunning || !e.Phase.Active():
		return spawner.Workload{}, errs.New(errs.Conflict, "job %s has ended, or is about to", id).
			With("submit it again")
	case e.HeldElsewhere() && e.Seen.HeldBy != "":
		return spawner.Workload{}, j.forbidden(e)
	case e.Phase == spawner.Stopping && !(e.Held && e.Moving): // what is taken back may be released meanwhile
		return spawner.Workload{}, errs.New(errs.Conflict, "job %s is on its way back in line", id).
			With("try again in a few seconds")
	}
	err = do(tx, e)
	return e.Workload, err
}

// forbidden is the error of what somebody else holds than its owner: asked for anew, it would run all the same.
func (j *Jobs) forbidden(e *engine.Entry) error {
	return errs.New(
		errs.Forbidden, "job %s is held at %s by %s: %s", e.ID, j.engine.At(e.Backend), e.Seen.HeldBy, e.Seen.Reason,
	).With("ask there to have it released: it goes on by itself then; or cancel it")
}
