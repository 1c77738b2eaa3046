package engine

import (
	"maps"
	"time"

	"slipway/spawner"
)

// Stats is the Manager's state in numbers.
type Stats struct {
	Workloads map[spawner.Kind]map[spawner.Phase]int
	Capacity  map[string]Capacity              // by backend
	Use       map[string]Capacity              // what is leased of it
	StartTook []time.Duration                  // from request to first answer, of the starts since the last call of Stats
	Orphans   int                              // what backends hold without a record
	Jobs      map[string]map[spawner.Phase]int // active ones, by backend
	Refused   map[string]int                   // jobs that were since the service started for what their owners may have, by reason
	Strangers map[string]int                   // active sessions that the last comparisons found their hubs not to know, by hub

	Kernels       map[string]map[spawner.Phase]int // those that stand by under StandsBy; by Entry
	KernelTook    []time.Duration                  // as StartTook, of kernels, which are not among those
	KernelsFailed map[string]map[spawner.Cause]int // since the service started, by Entry; CauseStart: before they first answered
	// KernelsDropped counts, by Entry, what kernels said and their agents could not keep for clients that were away, since the service started.
	KernelsDropped map[string]int64
	KernelRestarts map[string]map[spawner.Cause]int // that ended and began anew where they were, since the service started, by Entry
	Standbys       map[string]Standbys              // as StandbysOf
}

// StandsBy is as what Stats counts a kernel that nobody has asked for yet, whatever its phase.
const StandsBy spawner.Phase = "standby"

// Stats returns the Manager's state in numbers. The durations are given once.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Stats{Workloads: map[spawner.Kind]map[spawner.Phase]int{}, Capacity: m.cfg.Capacity, Use: map[string]Capacity{}, StartTook: m.startTook, Orphans: m.orphans, Strangers: maps.Clone(m.strange)}
	s.Kernels, s.KernelTook, s.Standbys = map[string]map[spawner.Phase]int{}, m.kernelTook, m.standbysOfLocked()
	s.KernelsFailed, s.KernelRestarts, s.KernelsDropped = m.kernelsFailed.clone(), m.kernelRestarts.clone(), maps.Clone(m.kernelsDropped)
	m.startTook, m.kernelTook = nil, nil
	s.Jobs, s.Refused = map[string]map[spawner.Phase]int{}, maps.Clone(m.refused)
	for _, name := range m.jobBackends() {
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
				phase = StandsBy
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
		s.Use[name] = m.ledger.use(name)
	}
	if m.cfg.Capacity[Host] != (Capacity{}) {
		s.Use[Host] = m.ledger.use(Host)
	}
	return s
}
