package engine

import (
	"context"
	"time"

	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

// JobFiles returns the files of jobs.
func (m *Manager) JobFiles() *jobfiles.Store { return m.starter.files }

// RunsEnvironments reports whether this service keeps environments in which workloads run.
func (m *Manager) RunsEnvironments() bool { return m.cfg.Launch.Image != nil }

// Thaws reports whether sessions can start from environments.
func (m *Manager) Thaws() bool { return m.cfg.Launch.Thaw != nil }

// WakeAfter asks for a look at a workload after a while.
func (r *Records) WakeAfter(id spawner.ID, d time.Duration) { r.queue.AddAfter(id, d) }

// NeverFits says why nothing of some resources can ever start on a backend; empty: it can.
func (r *Records) NeverFits(backend string, of spawner.Resources) string {
	return r.sched.NeverFits(backend, of)
}

// CheckGPU refuses what no GPU of this host can give.
func (r *Records) CheckGPU(asked gpu.Request) error { return r.sched.CheckGPU(asked) }

// Sync makes safe what was saved before.
func (r *Records) Sync(ctx context.Context) error {
	return r.store.Sync(context.WithoutCancel(ctx))
}

// RetryPause is how long a job waits before it is tried again by itself for the first time; zero: not at all.
func (m *Manager) RetryPause() time.Duration { return m.cfg.Limits.Retry }
