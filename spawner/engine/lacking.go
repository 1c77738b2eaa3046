package engine

import "slipway/spawner"

// StandbysOf says how all are, by entries; those of which nobody has started a kernel of late are not among them.
func (m *Manager) StandbysOf() map[string]spawner.Standbys {
	v := m.View()
	defer v.End()
	return v.standbysOf()
}

func (v View) standbysOf() map[string]spawner.Standbys {
	all := map[string]spawner.Standbys{}
	has := map[poolKey]bool{}
	for _, e := range v.standbys(func(*spawner.Workload) bool { return true }) {
		s := all[e.EntryName()]
		if has[poolOf(&e.Workload)] = true; e.claimable() {
			s.Ready++
		}
		all[e.EntryName()] = s
	}
	for key, p := range v.m.pools.of {
		s := all[p.entryName()]
		if why := v.whyLacking(p); !has[key] && why != "" {
			s.Lacking, s.Why = s.Lacking+1, why
		}
		all[p.entryName()] = s
	}
	return all
}

func (v View) whyLacking(p *pool) string {
	if v.m.pools.busy {
		return "this host has too much to do (kernels.warm_load)"
	}
	return p.lacks
}

// noteLacking notes why a standby could not be made; nil: it was. The administrator is told when it begins.
func (m *Manager) noteLacking(key poolKey, err error) {
	tx := m.Begin()
	defer tx.End()
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
