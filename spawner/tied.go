package spawner

import (
	"context"
	"time"
)

// tidyKernels ends the kernels whose sessions have ended: a kernel that was started from a session is there for it alone, and holds a slice.
func (m *Manager) tidyKernels(ctx context.Context) {
	for _, id := range m.orphanKernels() {
		m.log.Info("a kernel ends with the session that started it", "id", id)
		if err := m.Remove(ctx, Caller{System: true}, id); err != nil {
			m.log.Warn("cannot end a kernel whose session has ended", "id", id, "err", err)
		}
	}
}

func (m *Manager) orphanKernels() (ids []ID) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for id, e := range m.work {
		if e.Kind != Kernel || e.Session == "" || e.Want == WantGone {
			continue
		}
		if s := m.work[e.Session]; s == nil || !s.Phase.Active() {
			ids = append(ids, id)
		}
	}
	return ids
}

// mindDeserted ends a kernel for which nobody has come for as long as it may be left. How long that is, is what this run of the service has
// seen: while the service is away nobody can come.
func (m *Manager) mindDeserted(ctx context.Context, id ID, left bool) {
	if !m.deserted(id, left, time.Now()) {
		return
	}
	m.log.Info("a kernel ends because its client has not come back", "id", id)
	if err := m.Remove(ctx, Caller{System: true}, id); err != nil {
		m.log.Warn("cannot end a kernel that was left", "id", id, "err", err)
	}
}

func (m *Manager) deserted(id ID, left bool, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.work[id]
	switch {
	case e == nil || e.Spec.Life.Away == 0:
		return false
	case !left:
		e.pulse.left = time.Time{}
		return false
	case e.pulse.left.IsZero():
		e.pulse.left = now
	}
	return now.Sub(e.pulse.left) >= e.Spec.Life.Away
}

// HowFar says in a line what has happened last to a workload of the caller's; empty: nothing that is known.
func (m *Manager) HowFar(c Caller, id ID) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, err := m.entryLocked(c, id)
	if err != nil {
		return ""
	}
	return e.journal.latest().Message
}
