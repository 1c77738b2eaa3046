package kernelpool

import (
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/engine"
)

// StandbysOf says how all are, by entries; those of which nobody has started a kernel of late are not among them.
func (k *Pool) StandbysOf() map[string]spawner.Standbys {
	v := k.engine.View()
	defer v.End()
	return k.standbysOf(v)
}

func (k *Pool) standbysOf(v engine.View) map[string]spawner.Standbys {
	all := map[string]spawner.Standbys{}
	has := map[poolKey]bool{}
	for _, e := range k.standbys(v, func(*spawner.Workload) bool { return true }) {
		s := all[e.EntryName()]
		if has[poolOf(&e.Workload)] = true; e.Claimable() {
			s.Ready++
		}
		all[e.EntryName()] = s
	}
	for key, p := range k.pools.of {
		s := all[p.entryName()]
		if why := k.whyLacking(p); !has[key] && why != "" {
			s.Lacking, s.Why = s.Lacking+1, why
		}
		all[p.entryName()] = s
	}
	return all
}

func (k *Pool) whyLacking(p *pool) string {
	if k.pools.busy {
		return "this host has too much to do (kernels.max_warm_load)"
	}
	return p.lacks
}

// noteLacking notes why a standby could not be made; nil: it was. The administrator is told when it begins.
func (k *Pool) noteLacking(key poolKey, err error) {
	tx := k.engine.Begin()
	defer tx.End()
	p := k.pools.of[key]
	switch {
	case p == nil:
	case err == nil:
		p.lacks = ""
	case p.lacks == "":
		k.log.Info("no standby of a kernel is made", "kernel", key.name, "owner", key.User, "why", diagnosis.Brief(err))
		fallthrough
	default:
		p.lacks = diagnosis.Brief(err)
	}
}
