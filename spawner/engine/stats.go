package engine

import (
	"maps"
	"time"

	"slipway/spawner"
	"slipway/spawner/sched"
)

// counters are what the Manager counts for Stats.
type counters struct {
	refused    map[string]int // how many jobs were, by reason
	strange    map[string]int // how many sessions of a hub it has not known twice
	startTook  []time.Duration
	kernelTook []time.Duration
	orphans    int // what ran without a record at the last resync
}

func newCounters() counters {
	refused := map[string]int{sched.RefusedWaiting: 0, sched.RefusedStorage: 0, sched.RefusedGPUHours: 0}
	return counters{refused: refused, strange: map[string]int{}}
}

// mostStarts bounds what is kept of starts for a collector of metrics that does not come.
const mostStarts = 10_000

// started notes how long a workload of a kind took to come up.
func (c *counters) started(k spawner.Kind, took time.Duration) {
	note := &c.startTook
	if k == spawner.Kernel {
		note = &c.kernelTook
	}
	if len(*note) < mostStarts {
		*note = append(*note, took)
	}
}

// Stats returns the Manager's state in numbers. The durations are given once.
func (m *Manager) Stats() spawner.Stats {
	tx := m.Begin()
	defer tx.End()
	s := spawner.Stats{
		Workloads: map[spawner.Kind]map[spawner.Phase]int{}, Capacity: m.cfg.Capacity,
		Use: map[string]spawner.Capacity{}, StartTook: m.counters.startTook, Orphans: m.counters.orphans,
		Strangers: maps.Clone(m.counters.strange),
	}
	s.Kernels, s.KernelTook = map[string]map[spawner.Phase]int{}, m.counters.kernelTook
	for _, k := range m.kinds.all {
		if k.Count != nil {
			k.Count(tx.View, &s)
		}
	}
	m.counters.startTook, m.counters.kernelTook = nil, nil
	s.Jobs, s.Refused = map[string]map[spawner.Phase]int{}, maps.Clone(m.counters.refused)
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
	for name := range m.All() {
		s.Use[name] = m.sched.Use(name)
	}
	if m.cfg.Capacity[spawner.Host] != (spawner.Capacity{}) {
		s.Use[spawner.Host] = m.sched.Use(spawner.Host)
	}
	return s
}
