package kernelpool

import (
	"context"
	"maps"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// kind is a Pool as the engine asks it about kernels.
type kind struct {
	engine.Kind // what kernels have in common with sessions
	*Pool
}

// Run keeps standbys until ctx ends.
func (k kind) Run(ctx context.Context) { k.keepPools(ctx) }

// Resynced ends the kernels that nobody wants any more, and looks for lacking standbys.
func (k kind) Resynced(ctx context.Context) {
	k.tidyKernels(ctx)
	k.fillPools()
}

// Prewarmed notes that a standby has started well.
func (k kind) Prewarmed(_ engine.Tx, e *engine.Entry) {
	if p := k.pools.of[poolOf(&e.Workload)]; p != nil {
		p.failures, p.notUntil, p.lacks = 0, time.Time{}, ""
	}
}

// Up looks for lacking standbys: whoever has started a kernel is to have one stand by.
func (k kind) Up(engine.Tx, *engine.Entry) { k.fillPools() }

// Active counts what was dropped, and which processes have ended.
func (k kind) Active(_ engine.Tx, e *engine.Entry, a control.Activity) {
	k.noteDropped(e, a.Dropped)
	k.noteDeaths(e, a.Deaths)
}

// Left ends a kernel that its clients have left for too long.
func (k kind) Left(ctx context.Context, id spawner.ID, left bool) { k.trackOrphan(ctx, id, left) }

// Ending counts a kernel that has failed.
func (k kind) Ending(_ engine.Tx, e *engine.Entry, o spawner.Outcome) {
	k.failed(e, o)
	k.countFailed(e, o)
}

// Count adds how standbys and failures of kernels are.
func (k kind) Count(v engine.View, s *spawner.Stats) {
	s.Standbys = k.standbysOf(v)
	s.KernelsFailed, s.KernelRestarts, s.KernelsDropped = k.failures.clone(), k.restarts.clone(), maps.Clone(k.dropped)
}
