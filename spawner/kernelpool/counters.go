package kernelpool

import (
	"cmp"
	"maps"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/engine"
)

// noteDropped counts what a kernel's agent could not keep since it was last asked. What it tells first is of the
// time of another service, if there is something, and an agent that begins anew counts from 0 again.
func (k *Pool) noteDropped(e *engine.Entry, dropped int64) {
	if more := dropped - e.Pulse.Lost; more > 0 && !e.Pulse.Looked.IsZero() {
		k.dropped[e.EntryName()] += more
	}
	e.Pulse.Lost = dropped
}

// noteDeaths counts the processes of a kernel that ended since its agent was last asked, in the same way.
func (k *Pool) noteDeaths(e *engine.Entry, now control.Deaths) {
	then := e.Pulse.Deaths
	e.Pulse.Deaths = now
	if e.Pulse.Looked.IsZero() {
		return
	}
	for cause, more := range map[spawner.Cause]int{spawner.CauseMemory: now.Memory - then.Memory, spawner.CauseSignal: now.Signal - then.Signal, spawner.CauseExit: now.Exit - then.Exit} {
		if more > 0 {
			k.restarts.add(e.EntryName(), cause, more)
		}
	}
}

// countFailed counts a kernel that has failed. One that stands by counts as one that starts: nobody is harmed,
// and the next one may be.
func (k *Pool) countFailed(e *engine.Entry, o spawner.Outcome) {
	if !o.Failed || e.Outcome != nil {
		return
	}
	ended := spawner.CauseStart
	if e.Phase == spawner.Running {
		ended = spawner.CauseExit
	}
	k.failures.add(e.EntryName(), cmp.Or(o.Cause, diagnosis.CauseOf(o.Reason), ended), 1)
}

// causes counts kernels by entry, and why they ended.
type causes map[string]map[spawner.Cause]int

func (c causes) add(entry string, why spawner.Cause, n int) {
	if c[entry] == nil {
		c[entry] = map[spawner.Cause]int{}
	}
	c[entry][why] += n
}

func (c causes) clone() causes {
	all := causes{}
	for entry, of := range c {
		all[entry] = maps.Clone(of)
	}
	return all
}
