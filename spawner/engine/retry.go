package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/culling"
)

// mostAttempts is how many ends of earlier tries, and requests for them, a job's record keeps.
const MostAttempts = 10

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
func (m *Manager) retryJob(ctx context.Context, e Entry) error {
	m.cfg.Agents.Close(e.ID)
	if err := m.files.ClearTry(e.ID); err != nil {
		return err
	}
	changed, err := m.vacate(ctx, e, func(e *Entry) {
		e.NextTry()
		e.Rests = m.cfg.Pause > 0
	})
	if changed && err == nil {
		m.announceTry(e.ID)
	}
	return err
}

// endBackoff has a job stand in line that has waited for long enough.
func (m *Manager) endBackoff(ctx context.Context, e Entry) error {
	changed, err := m.change(ctx, e.ID, e.Rev, func(e *Entry) { e.Rests = false })
	if changed && err == nil {
		m.announceTry(e.ID)
	}
	return err
}

// restWords says how long a job waits yet before its next try, and why: "tries again in 30s: the job ended with exit
// code 1".
func (m *Manager) restWords(e Entry) string {
	words := "tries again in " + max(time.Until(m.phaseBegan(e).Add(m.pauseBefore(e.Attempt))), time.Second).Round(time.Second).String()
	if len(e.Attempts) > 0 {
		words += ": " + e.Attempts[len(e.Attempts)-1].Reason
	}
	return words
}

// rests reports whether a job waits before it is tried again.
func (e *Entry) rests() bool {
	return e.Rests && e.Phase == spawner.Pending && e.Want == spawner.WantRunning
}

// NextTry makes e, which has ended, one that waits in line for its next try.
func (e *Entry) NextTry() {
	e.Attempts = pastTries(e.Workload)
	e.Attempt++
	e.toLine()
	e.Outcome, e.Moves, e.Evictions, e.Bad, e.Held, e.Withdrawn, e.Rests = nil, 0, 0, nil, false, false, false
	e.Started, e.Asked, e.Saved = time.Now(), time.Time{}, false
	e.Seen, e.startedAt, e.quit, e.blindly, e.fetched = spawner.Observation{}, time.Time{}, time.Time{}, time.Time{}, fetched{}
	e.parting, e.hindrance, e.keeping, e.Pulse = "", "", attempts{}, culling.Pulse{}
}

// pastTries returns how the tries of a job have ended, this one last.
func pastTries(w spawner.Workload) []spawner.Outcome {
	past := slices.Clone(w.Attempts)
	if w.Outcome != nil {
		o := *w.Outcome
		o.Tail = ""
		past = append(past, o)
	}
	return past[max(0, len(past)-MostAttempts):]
}

// announceTry tells the owner of a job which try begins, and why.
func (m *Manager) announceTry(id spawner.ID) {
	tx := m.Begin()
	defer tx.End()
	if e := m.work[id]; e != nil {
		e.journal.reopen()
		words := TryWords(e.Workload)
		if e.rests() {
			words = "It " + m.restWords(*e)
		}
		tx.Note(e, spawner.Event{Percent: 0, Message: words})
	}
}

// TryWords says which try of a job this is: "Try 2 of 3: the one before failed: ...".
func TryWords(w spawner.Workload) string {
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
