package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/culling"
)

// mostAttempts is how many ends of earlier tries, and requests for them, a job's record keeps.
const mostAttempts = 10

// willRetry reports whether a job that is being ended is tried once more by itself. What its owner or the service has
// ended, what waited in vain for another, and what would fail in the same way again, is not.
func willRetry(w spawner.Workload) bool {
	return w.Want == spawner.WantRunning && hasTriesLeft(w) && !lastingFailure(*w.Outcome)
}

// hasTriesLeft reports whether a job that is being ended has failed and has tries left.
func hasTriesLeft(w spawner.Workload) bool {
	o := w.Outcome
	return w.Kind == spawner.Job && w.Phase == spawner.Stopping && o != nil && o.Failed && !o.Canceled && o.Cause != spawner.CauseDependency && o.Cause != spawner.CauseCanceled && w.Attempt < w.Spec.Retries
}

// lastingFailure reports whether what a job has failed for is the same at every try: what it runs or where it runs has
// to be changed first. Not so what an exit code alone tells, nor what is the fault of a host.
func lastingFailure(o spawner.Outcome) bool {
	return o.Cause == spawner.CauseModule || o.Cause == spawner.CauseOutput
}

// giveUp says of the end of a job that it was not tried again though it had tries left.
func giveUp(o *spawner.Outcome, w spawner.Workload) {
	if hasTriesLeft(w) && lastingFailure(*o) {
		o.Remedy = strings.TrimSuffix("it was not tried again, which would not help; "+o.Remedy, "; ")
	}
}

// mostRest is how long a job waits at most before it is tried again by itself.
const mostRest = 5 * time.Minute

// pauseBefore returns how long a job rests of which so many tries have ended.
func (m *Manager) pauseBefore(tries int) time.Duration {
	pause := m.cfg.Pause
	for ; tries > 1 && pause < mostRest; tries-- {
		pause *= 3
	}
	return min(pause, mostRest)
}

// retryJob has a job that has failed and was seen gone go back in line for its next try, in the turn that it had: after
// a while.
func (m *Manager) retryJob(ctx context.Context, e entry) error {
	m.cfg.Agents.Close(e.ID)
	if err := m.files.ClearTry(e.ID); err != nil {
		return err
	}
	changed, err := m.vacate(ctx, e, func(e *entry) {
		e.nextTry()
		e.Rests = m.cfg.Pause > 0
	})
	if changed && err == nil {
		m.announceTry(e.ID)
	}
	return err
}

// endBackoff has a job stand in line that has waited for long enough.
func (m *Manager) endBackoff(ctx context.Context, e entry) error {
	changed, err := m.change(ctx, e.ID, e.Rev, func(e *entry) { e.Rests = false })
	if changed && err == nil {
		m.announceTry(e.ID)
	}
	return err
}

// restWords says how long a job waits yet before its next try, and why: "tries again in 30s: the job ended with exit
// code 1".
func (m *Manager) restWords(e entry) string {
	words := "tries again in " + max(time.Until(m.phaseBegan(e).Add(m.pauseBefore(e.Attempt))), time.Second).Round(time.Second).String()
	if len(e.Attempts) > 0 {
		words += ": " + e.Attempts[len(e.Attempts)-1].Reason
	}
	return words
}

// rests reports whether a job waits before it is tried again.
func (e *entry) rests() bool {
	return e.Rests && e.Phase == spawner.Pending && e.Want == spawner.WantRunning
}

// nextTry makes e, which has ended, one that waits in line for its next try.
func (e *entry) nextTry() {
	e.Attempts = pastTries(e.Workload)
	e.Attempt++
	e.toLine()
	e.Outcome, e.Moves, e.Evictions, e.Bad, e.Held, e.Withdrawn, e.Rests = nil, 0, 0, nil, false, false, false
	e.Started, e.Asked, e.Saved = time.Now(), time.Time{}, false
	e.seen, e.startedAt, e.quit, e.blindly, e.fetched = spawner.Observation{}, time.Time{}, time.Time{}, time.Time{}, fetched{}
	e.parting, e.hindrance, e.keeping, e.pulse = "", "", attempts{}, culling.Pulse{}
}

// pastTries returns how the tries of a job have ended, this one last.
func pastTries(w spawner.Workload) []spawner.Outcome {
	past := slices.Clone(w.Attempts)
	if w.Outcome != nil {
		o := *w.Outcome
		o.Tail = ""
		past = append(past, o)
	}
	return past[max(0, len(past)-mostAttempts):]
}

// announceTry tells the owner of a job which try begins, and why.
func (m *Manager) announceTry(id spawner.ID) {
	tx := m.Begin()
	defer tx.End()
	if e := m.work[id]; e != nil {
		e.journal.reopen()
		words := tryWords(e.Workload)
		if e.rests() {
			words = "It " + m.restWords(*e)
		}
		tx.note(e, spawner.Event{Percent: 0, Message: words})
	}
}

// tryWords says which try of a job this is: "Try 2 of 3: the one before failed: ...".
func tryWords(w spawner.Workload) string {
	text := fmt.Sprintf("Try %d", w.Attempt+1)
	if w.Attempt <= w.Spec.Retries {
		text += fmt.Sprintf(" of %d", w.Spec.Retries+1)
	}
	if len(w.Attempts) == 0 {
		return text
	}
	switch last := w.Attempts[len(w.Attempts)-1]; {
	case last.Canceled:
		return text + ": the one before was canceled"
	case last.Failed:
		return text + ": the one before failed: " + last.Reason
	default:
		return text + ": the one before was done"
	}
}

// Retry tries a job again that has ended. It is the same job, in the same place of its scan; what the try before has
// left is dropped.
func (m *Manager) Retry(ctx context.Context, c spawner.Caller, id spawner.ID, r spawner.Retry) (spawner.Workload, error) {
	w, err := m.retryable(ctx, c, id, r)
	if err != nil || retriedBy(w, r.RequestID) {
		return w, err
	}
	return m.together(ctx, m.retrial(c, id, r))
}

// retryable refuses a try that could not be: what may take long is asked before the lock is held.
func (m *Manager) retryable(ctx context.Context, c spawner.Caller, id spawner.ID, r spawner.Retry) (spawner.Workload, error) {
	w, err := m.Get(ctx, c, id)
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
	if err := errors.Join(m.files.CheckInputs(w), m.checkThere(w)); err != nil {
		return w, err
	}
	next := changedBy(r, w)
	if b := m.backends[w.Backend]; b == nil {
		return w, errs.New(errs.Conflict, "job %s ran on %s, which this service has no more", id, w.Backend).With("submit it anew, to another")
	}
	if why := m.sched.NeverFits(next.Backend, next.Spec.Resources); why != "" {
		return w, errs.New(errs.OverQuota, "this job can never start here: %s", why).With("ask for less")
	}
	if err := m.afford(w.Principal(), demand{jobs: 1, gpu: !w.LocalGPU().None()}); err != nil {
		return w, err
	}
	if r.Resources == nil && r.TimeLimit == nil {
		return w, nil // it was judged when it was submitted
	}
	return w, m.judge(ctx, next)
}

// retriedBy reports whether a request has had a job tried again.
func retriedBy(w spawner.Workload, request string) bool {
	return request != "" && slices.Contains(w.Retried, request)
}

// mayTry refuses to try again what has not ended, and what has ended otherwise than is meant.
func mayTry(w spawner.Workload, r spawner.Retry) error {
	switch {
	case w.Kind != spawner.Job:
		return errs.New(errs.Invalid, "%s is a session: it is not tried again as jobs are", w.ID).With("start it again")
	case w.Want == spawner.WantGone || w.Phase == spawner.Removing:
		return errs.New(errs.Conflict, "job %s is being removed", w.ID).With("submit it again")
	case w.Phase == spawner.Stopping:
		return errs.New(errs.Conflict, "job %s is just ending", w.ID).With("try again in a few seconds")
	case w.Phase != spawner.Stopped:
		return errs.New(errs.Conflict, "job %s has not ended: it is %s", w.ID, w.Phase).With("cancel it first, or requeue it to have it begin anew")
	case len(r.Of) == 0 && w.Ending() == spawner.Done:
		return errs.New(errs.Conflict, "job %s is done", w.ID).With("submit it anew (`slipway jobs resubmit`); or have it run once more with `slipway jobs retry --all`")
	case len(r.Of) > 0 && !slices.Contains(r.Of, w.Ending()):
		return errs.New(errs.Conflict, "job %s is %s, not %s", w.ID, w.Ending(), endingWords(r)).With("name the state " + string(w.Ending()) + " to have it run once more, or submit it anew")
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
func (m *Manager) retrial(c spawner.Caller, id spawner.ID, r spawner.Retry) *ballot {
	decide := func(tx Tx, revived map[spawner.Principal]int) (*entry, func(*entry), error) {
		e, err := tx.entry(c, id)
		if err != nil || retriedBy(e.Workload, r.RequestID) {
			return e, nil, err
		}
		if err := mayTry(e.Workload, r); err != nil {
			return e, nil, err
		}
		if why, err := tx.afford(e.Principal(), demand{jobs: 1 + revived[e.Principal()], gpu: !e.LocalGPU().None()}); err != nil { // others may have come since
			m.refused[why]++
			return e, nil, err
		}
		turn := m.sched.NextTurn()
		return e, func(e *entry) {
			e.Spec = changedBy(r, e.Workload).Spec
			e.nextTry()
			e.Want, e.Turn = spawner.WantRunning, turn
			e.Moving = true // what the last try has left here goes first
			if r.RequestID != "" {
				e.Retried = append(slices.Clone(e.Retried), r.RequestID)
				e.Retried = e.Retried[max(0, len(e.Retried)-mostAttempts):]
			}
		}, nil
	}
	return &ballot{decide: decide, after: func(tx Tx, e *entry) {
		e.journal.reopen()
		m.sched.Asked(&e.Workload)
		tx.note(e, spawner.Event{Percent: 0, Message: tryWords(e.Workload)})
	}}
}

// Progress returns what a job's payload has last said of how far it is; nil: nothing.
func (m *Manager) Progress(id spawner.ID) *control.Progress {
	v := m.View()
	defer v.End()
	e := m.work[id]
	switch {
	case e == nil:
		return nil
	case e.Outcome != nil:
		return e.Outcome.Progress
	default:
		return e.progress
	}
}
