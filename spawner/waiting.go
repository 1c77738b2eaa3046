package spawner

import "fmt"

// Waiting says in words why a workload waits for room; empty when it does not.
func (m *Manager) Waiting(w Workload) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.work[w.ID]
	if e == nil || e.Phase != Pending || e.Want != WantRunning {
		return ""
	}
	return m.waitingLocked(e)
}

// waitingLocked says why e may not lease now. Those that asked first go first, so that a large one is not starved by small ones.
func (m *Manager) waitingLocked(e *entry) string {
	if place := m.placeLocked(e); place > 1 {
		return fmt.Sprintf("Waiting for room: number %d in line", place)
	}
	if lacks := m.ledger.lacks(e.Backend, e.Spec.Resources); lacks != "" {
		return "Waiting for room, next in line: " + lacks
	}
	return ""
}

// placeLocked gives e's place, from 1, among those that wait for its backend.
func (m *Manager) placeLocked(e *entry) int {
	place := 1
	for _, o := range m.work {
		waits := o.Phase == Pending && o.Backend == e.Backend && o.Want == WantRunning && (o.Kind == Job || o.secrets != nil)
		if waits && o.Started.Before(e.Started) {
			place++
		}
	}
	return place
}
