package engine

import (
	"context"
	"time"

	"slipway/spawner"
	"slipway/spawner/culling"
	"slipway/spawner/lifecycle"
)

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

// RestWords says how long a job waits yet before its next try, and why: "tries again in 30s: the job ended with exit
// code 1".
func (m *Manager) RestWords(e Entry) string {
	words := "tries again in " + max(
		time.Until(m.phaseBegan(e).Add(lifecycle.PauseBefore(e.Attempt, m.cfg.Pause))), time.Second,
	).Round(time.Second).String()
	if len(e.Attempts) > 0 {
		words += ": " + e.Attempts[len(e.Attempts)-1].Reason
	}
	return words
}

// InBackoff reports whether a job waits before it is tried again.
func (e *Entry) InBackoff() bool {
	return e.Rests && e.Phase == spawner.Pending && e.Want == spawner.WantRunning
}

// NextTry makes e, which has ended, one that waits in line for its next try.
func (e *Entry) NextTry() {
	e.Attempts = lifecycle.PastTries(e.Workload)
	e.Attempt++
	e.toLine()
	e.Outcome, e.Moves, e.Evictions, e.Bad, e.Held, e.Withdrawn, e.Rests = nil, 0, 0, nil, false, false, false
	e.Started, e.Asked, e.Saved = time.Now(), time.Time{}, false
	e.Seen, e.startedAt, e.quit, e.blindly, e.fetched = spawner.Observation{}, time.Time{}, time.Time{}, time.Time{}, fetched{}
	e.parting, e.Hindrance, e.keeping, e.Pulse = "", "", attempts{}, culling.Pulse{}
}

// announceTry tells the owner of a job which try begins, and why.
func (m *Manager) announceTry(id spawner.ID) {
	tx := m.Begin()
	defer tx.End()
	if e := m.work[id]; e != nil {
		e.Journal.Reopen()
		words := lifecycle.TryWords(e.Workload)
		if e.InBackoff() {
			words = "It " + m.RestWords(*e)
		}
		tx.Note(e, spawner.Event{Percent: 0, Message: words})
	}
}
