package engine

import "slipway/spawner"

// StandbysOf says how all are, by entries; those of which nobody has started a kernel of late are not among them.
func (m *Manager) StandbysOf() map[string]spawner.Standbys {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.standbysOfLocked()
}

func (m *Manager) standbysOfLocked() map[string]spawner.Standbys {
	all := map[string]spawner.Standbys{}
	has := map[poolKey]bool{}
	for _, e := range m.standbysLocked(func(*spawner.Workload) bool { return true }) {
		s := all[e.EntryName()]
		if has[poolOf(&e.Workload)] = true; e.claimable() {
			s.Ready++
		}
		all[e.EntryName()] = s
	}
	for key, p := range m.pools.of {
		s := all[p.entryName()]
		if why := m.whyLackingLocked(p); !has[key] && why != "" {
			s.Lacking, s.Why = s.Lacking+1, why
		}
		all[p.entryName()] = s
	}
	return all
}

func (m *Manager) whyLackingLocked(p *pool) string {
	if m.pools.busy {
		return "this host has too much to do (kernels.warm_load)"
	}
	return p.lacks
}

// noteLacking notes why a standby could not be made; nil: it was. The administrator is told when it begins.
func (m *Manager) noteLacking(key poolKey, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pools.of[key]
	switch {
	case p == nil:
	case err == nil:
		p.lacks = ""
	case p.lacks == "":
		m.log.Info("no standby of a kernel is made", "kernel", key.name, "owner", key.User, "why", brief(err))
		fallthrough
	default:
		p.lacks = brief(err)
	}
}
