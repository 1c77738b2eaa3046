package engine

import (
	"context"
	"slices"

	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

// JobBackends returns the backends that jobs may name.
func (m *Manager) JobBackends() []string {
	var names []string
	for name := range m.backends {
		if name != m.cfg.Sessions || m.IsRemote(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// JobFiles returns the files of jobs.
func (m *Manager) JobFiles() *jobfiles.Store { return m.files }

// Configured returns a backend of the configuration; nil: it has none of this name.
func (m *Manager) Configured(name string) spawner.Backend { return m.backends[name] }

// NeverFits says why nothing of resources r can ever start on a backend; empty: it can.
func (m *Manager) NeverFits(backend string, r spawner.Resources) string {
	return m.sched.NeverFits(backend, r)
}

// CheckGPU refuses what no GPU of this host can give.
func (m *Manager) CheckGPU(r gpu.Request) error { return m.sched.CheckGPU(r) }

// Sync makes safe what was saved before.
func (m *Manager) Sync(ctx context.Context) error {
	return m.cfg.Store.Sync(context.WithoutCancel(ctx))
}
