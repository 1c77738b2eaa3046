package engine

import (
	"slipway/spawner"
	"slipway/spawner/sched"
)

// needed reports whether a workload has to stay known for a moment, because somebody waits for it who has not seen how
// it ended.
func (m *Manager) needed(w *spawner.Workload) bool {
	v := m.View()
	defer v.End()
	return m.sched.Needed(w)
}

// prerequisites is what has become of what a job waits for.
func (m *Manager) prerequisites(w *spawner.Workload) sched.Prerequisites {
	v := m.View()
	defer v.End()
	return m.sched.Prerequisites(w)
}

// forsaken is the outcome of a job that waits in vain.
func (m *Manager) forsaken(w *spawner.Workload) spawner.Outcome {
	v := m.View()
	defer v.End()
	return m.sched.Forsaken(w)
}
