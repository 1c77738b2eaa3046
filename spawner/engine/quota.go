package engine

import (
	"slipway/spawner"
)

// Learn finds out what the jobs of users may have. While that is not surely known, what was known before counts.
func (m *Manager) Learn(owners ...spawner.Principal) {
	if m.cfg.Allowance == nil {
		return
	}
	for _, o := range owners {
		a, sure := m.cfg.Allowance(o.Hub, o.User)
		tx := m.Begin()
		m.sched.Allow(o, a, sure)
		tx.End()
	}
}

// relearn does so again for all who have jobs.
func (m *Manager) relearn() {
	v := m.View()
	owners := m.sched.Users()
	v.End()
	m.Learn(owners...)
}
