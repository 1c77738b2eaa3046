package engine

import "context"

// announceStart has somebody tell what happens in a start, if that was asked for, once a launch. A start has come to
// its end once the session was up, also where its secrets are needed longer.
func (m *Manager) announceStart(ctx context.Context, e Entry) {
	if m.cfg.AnnounceStart == nil || e.Spec.EventsURL == "" || e.Secrets == nil || !e.Up.IsZero() ||
		e.announced == e.Launch {
		return
	}
	tx := m.Begin()
	now := m.work[e.ID]
	mine := now != nil && now.Launch == e.Launch && now.announced != e.Launch
	if mine {
		now.announced = e.Launch
	}
	tx.End()
	if mine {
		w, secrets := e.Workload, e.Secrets // e itself would be on the heap then, at each look at any workload
		m.announcements.Go(func() { m.cfg.AnnounceStart(ctx, w, secrets) })
	}
}
