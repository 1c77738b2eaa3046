package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/lifecycle"
)

// Retry tries a job again that has ended. It is the same job, in the same place of its scan; what the try before has
// left is dropped.
func (j *Jobs) Retry(ctx context.Context, c spawner.Caller, id spawner.ID, r spawner.Retry) (spawner.Workload, error) {
	w, err := j.retryable(ctx, c, id, r)
	if err != nil || retriedBy(w, r.RequestID) {
		return w, err
	}
	return j.engine.Update(ctx, j.retrial(c, id, r))
}

// retryable refuses a try that could not be: what may take long is asked before the lock is held.
func (j *Jobs) retryable(
	ctx context.Context, c spawner.Caller, id spawner.ID, r spawner.Retry,
) (spawner.Workload, error) {
	w, err := j.engine.Get(ctx, c, id)
	if err = errors.Join(err, spawner.CheckLaunch("request_id", r.RequestID)); err != nil {
		return w, err
	}
	if !c.MaySubmit() {
		return w, errs.New(errs.Forbidden, "jobs are tried again by users, from outside or from a session")
	}
	if w.Principal() != c.Principal() { // an administrator ends what is another's, and runs nothing as her
		return w, errs.New(errs.Forbidden, "job %s is another's: only its owner has it run once more", id)
	}
	if retriedBy(w, r.RequestID) {
		return w, nil
	}
	if err := mayTry(w, r); err != nil {
		return w, err
	}
	if err := errors.Join(j.engine.JobFiles().CheckInputs(w), j.checkThere(w)); err != nil {
		return w, err
	}
	next := changedBy(r, w)
	if b := j.engine.Configured(w.Backend); b == nil {
		return w, errs.New(errs.Conflict, "job %s ran on %s, which this service has no more", id, w.Backend).
			With("submit it anew, to another")
	}
	if why := j.engine.NeverFits(next.Backend, next.Spec.Resources); why != "" {
		return w, errs.New(errs.OverQuota, "this job can never start here: %s", why).With("ask for less")
	}
	if err := j.afford(w.Principal(), demand{jobs: 1, gpu: !w.LocalGPU().None()}); err != nil {
		return w, err
	}
	if r.Resources == nil && r.TimeLimit == nil {
		return w, nil // it was judged when it was submitted
	}
	return w, j.engine.Judge(ctx, next)
}

// retriedBy reports whether a request has had a job tried again.
func retriedBy(w spawner.Workload, request string) bool {
	return request != "" && slices.Contains(w.Retried, request)
}

// mayTry refuses to try again what has not ended, and what has ended otherwise than is meant.
func mayTry(w spawner.Workload, r spawner.Retry) error {
	switch {
	case w.Kind.Session():
		return errs.New(errs.Invalid, "%s is a session: it is not tried again as jobs are", w.ID).With("start it again")
	case w.Want == spawner.WantGone || w.Phase == spawner.Removing:
		return errs.New(errs.Conflict, "job %s is being removed", w.ID).With("submit it again")
	case w.Phase == spawner.Stopping:
		return errs.New(errs.Conflict, "job %s is just ending", w.ID).With("try again in a few seconds")
	case w.Phase != spawner.Stopped:
		return errs.New(errs.Conflict, "job %s has not ended: it is %s", w.ID, w.Phase).
			With("cancel it first, or requeue it to have it begin anew")
	case len(r.Of) == 0 && w.Ending() == spawner.Done:
		return errs.New(errs.Conflict, "job %s is done", w.ID).With("submit it anew (`slipway jobs resubmit`); or have it run once more with `slipway jobs retry --all`")
	case len(r.Of) > 0 && !slices.Contains(r.Of, w.Ending()):
		return errs.New(errs.Conflict, "job %s is %s, not %s", w.ID, w.Ending(), endingWords(r)).
			With("have it run once more with `slipway jobs retry --all`, or in Python with .retry(" +
				string(w.Ending()) + "=True); or submit it anew")
	default:
		return nil
	}
}

// endingWords says in words for which ends r is meant.
func endingWords(r spawner.Retry) string {
	words := make([]string, len(r.Of))
	for i, end := range r.Of {
		words[i] = string(end)
	}
	return strings.Join(words, " or ")
}

// changedBy returns w with what r changes of it.
func changedBy(r spawner.Retry, w spawner.Workload) spawner.Workload {
	w.Spec = spawner.SpecPatch{Resources: r.Resources, TimeLimit: r.TimeLimit}.Apply(w.Spec)
	return w
}

// retrial is a try that was found to be possible, which is seen again under the lock.
func (j *Jobs) retrial(c spawner.Caller, id spawner.ID, r spawner.Retry) *engine.Update {
	decide := func(tx engine.Tx, revived map[spawner.Principal]int) (*engine.Entry, func(*engine.Entry), error) {
		e, err := tx.Find(c, id)
		if err != nil || retriedBy(e.Workload, r.RequestID) {
			return e, nil, err
		}
		if err := mayTry(e.Workload, r); err != nil {
			return e, nil, err
		}
		// others may have come since
		if why, err := j.affordIn(tx.View, e.Principal(), demand{jobs: 1 + revived[e.Principal()], gpu: !e.LocalGPU().None()}); err != nil {
			tx.CountRefused(why)
			return e, nil, err
		}
		turn := tx.Sched().NextTurn()
		return e, func(e *engine.Entry) {
			e.Spec = changedBy(r, e.Workload).Spec
			e.NextTry()
			e.Want, e.Turn = spawner.WantRunning, turn
			e.Moving = true // what the last try has left here goes first
			if r.RequestID != "" {
				e.Retried = append(slices.Clone(e.Retried), r.RequestID)
				e.Retried = e.Retried[max(0, len(e.Retried)-lifecycle.MostAttempts):]
			}
		}, nil
	}
	return &engine.Update{Decide: decide, After: func(tx engine.Tx, e *engine.Entry) {
		tx.Reopen(e)
		tx.Sched().Asked(&e.Workload)
		tx.Note(e, spawner.Event{Percent: 0, Message: lifecycle.TryWords(e.Workload)})
	}}
}
