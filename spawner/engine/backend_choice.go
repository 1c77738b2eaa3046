package engine

import (
	"context"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
)

// choose returns the backend of a job that may go to any.
func (m *Manager) choose(ctx context.Context, c spawner.Caller, r submission) (string, error) {
	open := slices.DeleteFunc(m.jobBackends(), func(name string) bool { return m.cfg.Admits != nil && !m.cfg.Admits(name, r.Resources) })
	for _, name := range open {
		if r.Backend = name; !m.remote(name) && m.startsNow(ctx, c, r) {
			return name, nil
		}
	}
	for _, name := range open {
		if r.Backend = name; m.remote(name) && m.takes(ctx, c, r) {
			return name, nil
		}
	}
	switch {
	case len(open) == 0:
		return "", errs.Bad("backend", spawner.AnyBackend, "a job that asks for less: no backend has so many CPUs and so much memory for one")
	case slices.Contains(open, m.cfg.Jobs):
		return m.cfg.Jobs, nil
	default:
		return open[0], nil
	}
}

// startsNow reports whether a job would start at once on a backend of this host.
func (m *Manager) startsNow(ctx context.Context, c spawner.Caller, r submission) bool {
	if !m.takes(ctx, c, r) {
		return false
	}
	v := m.View()
	defer v.End()
	return m.sched.Room(m.jobOf(c, r, "")).Lacks == ""
}

// takes reports whether a backend could run a job, as far as can be told.
func (m *Manager) takes(ctx context.Context, c spawner.Caller, r submission) bool {
	b := m.backends[r.Backend]
	switch {
	case m.sched.NeverFits(r.Backend, r.Resources) != "", !m.remote(r.Backend) && m.sched.CheckGPU(r.GPU) != nil, b.Check(ctx) != nil:
		return false
	default:
		return m.judge(ctx, m.jobOf(c, r, "")) == nil
	}
}
