package engine

import "context"

// announceStart has somebody tell what happens in a start, if that was asked for, once a launch. A start has come to
// its end once the session was up, also where its secrets are needed longer.
func (s *starter) announceStart(ctx context.Context, e Entry) {
	if s.announce == nil || e.Spec.EventsURL == "" || e.Secrets == nil || !e.Up.IsZero() ||
		e.announced == e.Launch {
		return
	}
	tx := s.Begin()
	now := s.work[e.ID]
	mine := now != nil && now.Launch == e.Launch && now.announced != e.Launch
	if mine {
		now.announced = e.Launch
	}
	tx.End()
	if mine {
		w, secrets := e.Workload, e.Secrets // e itself would be on the heap then, at each look at any workload
		s.announcements.Go(func() { s.announce(ctx, w, secrets) })
	}
}
