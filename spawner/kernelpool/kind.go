package kernelpool

import (
	"context"
	"maps"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/engine"
	"slipway/spawner/jobfiles"
	"slipway/spawner/lifecycle"
)

// memory is for how long it is known of a kernel that ended by itself why it did.
const memory = 10 * time.Minute

// kind returns what the engine asks about kernels: what it asks about sessions, and what is their own.
func (k *Pool) kind() engine.Kind {
	of := k.sessions.Kind()
	of.Role, of.Evicted, of.Remembered = lifecycle.Kernel, "; what it had in memory is lost", memory
	of.Heard = nil // what is killed in it for want of memory its own outcome tells
	collect := of.Collect
	of.Collect = func(
		ctx context.Context, e engine.Entry, from jobfiles.Source, until time.Time, o *spawner.Outcome,
	) (kept bool, err error) {
		kept, err = collect(ctx, e, from, until, o)
		if o.Failed {
			*o = explain(e, *o)
		}
		return kept, err
	}
	of.Run, of.Resynced, of.Count = k.keepPools, k.resynced, k.count
	of.Prewarmed, of.Active, of.Left, of.Ending, of.Failed = k.prewarmed, k.active, k.trackOrphan, k.ending, explain
	// Whoever has started a kernel is to have one stand by.
	of.Up = func(engine.Tx, *engine.Entry) { k.fillPools() }
	return of
}

// resynced ends the kernels that nobody wants any more, and looks for lacking standbys.
func (k *Pool) resynced(ctx context.Context) {
	k.tidyKernels(ctx)
	k.fillPools()
}

// prewarmed notes that a standby has started well.
func (k *Pool) prewarmed(_ engine.Tx, e *engine.Entry) {
	if p := k.pools.of[poolOf(&e.Workload)]; p != nil {
		p.failures, p.notUntil, p.lacks = 0, time.Time{}, ""
	}
}

// active counts what was dropped, and which processes have ended.
func (k *Pool) active(_ engine.Tx, e *engine.Entry, a control.Activity) {
	k.noteDropped(e, a.Dropped)
	k.noteDeaths(e, a.Deaths)
}

// ending counts a kernel that has failed.
func (k *Pool) ending(_ engine.Tx, e *engine.Entry, o spawner.Outcome) {
	k.failed(e, o)
	k.countFailed(e, o)
}

// explain says of a kernel that has failed what its user can do with a kernel.
func explain(e engine.Entry, o spawner.Outcome) spawner.Outcome {
	return diagnosis.OfKernel(o, e.Phase == spawner.Running)
}

// count adds how standbys and failures of kernels are.
func (k *Pool) count(v engine.View, s *spawner.Stats) {
	s.Kernels = map[string]map[spawner.Phase]int{}
	for _, e := range v.OfKind(spawner.Kernel) {
		phase := e.Phase
		if e.IsStandby() {
			phase = spawner.StandsBy
		}
		if s.Kernels[e.EntryName()] == nil {
			s.Kernels[e.EntryName()] = map[spawner.Phase]int{}
		}
		s.Kernels[e.EntryName()][phase]++
	}
	s.Standbys = k.standbysOf(v)
	s.KernelsFailed, s.KernelRestarts, s.KernelsDropped = k.failures.clone(), k.restarts.clone(), maps.Clone(k.dropped)
}
