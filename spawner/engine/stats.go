package engine

import (
	"maps"

	"slipway/spawner"
)

// Stats returns the Manager's state in numbers. The durations are given once.
func (m *Manager) Stats() spawner.Stats {
	tx := m.Begin()
	defer tx.End()
	s := spawner.Stats{Workloads: map[spawner.Kind]map[spawner.Phase]int{}, Capacity: m.cfg.Capacity, Use: map[string]spawner.Capacity{}, StartTook: m.startTook, Orphans: m.orphans, Strangers: maps.Clone(m.strange)}
	s.Kernels, s.KernelTook = map[string]map[spawner.Phase]int{}, m.kernelTook
	m.kinds.tell(func(k Kind) { k.Count(tx.View, &s) })
	m.startTook, m.kernelTook = nil, nil
	s.Jobs, s.Refused = map[string]map[spawner.Phase]int{}, maps.Clone(m.refused)
	for _, name := range m.JobBackends() {
		s.Jobs[name] = map[spawner.Phase]int{}
	}
	for _, e := range m.work {
		if s.Workloads[e.Kind] == nil {
			s.Workloads[e.Kind] = map[spawner.Phase]int{}
		}
		s.Workloads[e.Kind][e.Phase]++
		if e.Kind == spawner.Kernel {
			if s.Kernels[e.EntryName()] == nil {
				s.Kernels[e.EntryName()] = map[spawner.Phase]int{}
			}
			phase := e.Phase
			if e.IsStandby() {
				phase = spawner.StandsBy
			}
			s.Kernels[e.EntryName()][phase]++
		}
		if e.Kind == spawner.Job && e.Phase.Active() {
			if s.Jobs[e.Backend] == nil { // the site has it no more
				s.Jobs[e.Backend] = map[spawner.Phase]int{}
			}
			s.Jobs[e.Backend][e.Phase]++
		}
	}
	for name := range m.backends {
		s.Use[name] = m.sched.Use(name)
	}
	if m.cfg.Capacity[spawner.Host] != (spawner.Capacity{}) {
		s.Use[spawner.Host] = m.sched.Use(spawner.Host)
	}
	return s
}
