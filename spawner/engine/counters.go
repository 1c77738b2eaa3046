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

// Count adds to a state what is counted, and what each kind does. The durations are given once.
func (tx Tx) Count(s *spawner.Stats) {
	c := &tx.r.counters
	s.Capacity, s.Orphans = tx.r.sched.Capacity(), c.orphans
	s.Refused, s.Strangers = maps.Clone(c.refused), maps.Clone(c.strange)
	s.StartTook, s.KernelTook = c.startTook, c.kernelTook
	c.startTook, c.kernelTook = nil, nil
	for _, k := range tx.r.kinds.all {
		if k.Count != nil {
			k.Count(tx.View, s)
		}
	}
}
