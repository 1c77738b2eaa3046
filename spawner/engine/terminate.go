package engine

import (
	"context"
	"time"

	"slipway/spawner"
)

// Evict ends a workload that harms others; its owner reads why. One that is ending already is left alone.
func (m *Manager) Evict(ctx context.Context, id spawner.ID, reason, remedy string) error {
	tx := m.Begin()
	defer tx.End()
	e := m.work[id]
	if e == nil || !e.Phase.Active() || e.Phase == spawner.Pending || e.Phase == spawner.Stopping {
		return nil
	}
	m.log.Warn("evicting", "id", id, "owner", e.Owner, "why", reason)
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

// tellTime is how long telling the people in a session may take.
const tellTime = 5 * time.Second

// Tell shows a line to the people in a session, and in the events of any workload. That nobody is there is no error.
func (m *Manager) Tell(ctx context.Context, id spawner.ID, text string) {
	m.note(id, spawner.Event{Percent: -1, Message: text})
	if id.OfJob() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	if err := m.cfg.Agents.Agent(id).Notify(ctx, text); err != nil {
		m.log.Debug("cannot tell a session", "id", id, "err", err)
	}
}
