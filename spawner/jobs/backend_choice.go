package jobs

import (
	"context"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
)

// choose returns the backend of a job that may go to any.
func (j *Jobs) choose(ctx context.Context, c spawner.Caller, r submission) (string, error) {
	open := slices.DeleteFunc(
		j.engine.JobBackends(),
		func(name string) bool { return j.cfg.Admits != nil && !j.cfg.Admits(name, r.Resources) },
	)
	for _, name := range open {
		if r.Backend = name; !j.engine.IsRemote(name) && j.startsNow(ctx, c, r) {
			return name, nil
		}
	}
	for _, name := range open {
		if r.Backend = name; j.engine.IsRemote(name) && j.takes(ctx, c, r) {
			return name, nil
		}
	}
	switch {
	case len(open) == 0:
		return "", errs.Bad(
			"backend", spawner.AnyBackend,
			"a job that asks for less: no backend has so many CPUs and so much memory for one",
		)
	case slices.Contains(open, j.cfg.Backend):
		return j.cfg.Backend, nil
	default:
		return open[0], nil
	}
}

// startsNow reports whether a job would start at once on a backend of this host.
func (j *Jobs) startsNow(ctx context.Context, c spawner.Caller, r submission) bool {
	if !j.takes(ctx, c, r) {
		return false
	}
	v := j.engine.View()
	defer v.End()
	return v.Sched().Room(j.jobOf(c, r, "")).Lacks == ""
}

// takes reports whether a backend could run a job, as far as can be told.
func (j *Jobs) takes(ctx context.Context, c spawner.Caller, r submission) bool {
	b := j.engine.Configured(r.Backend)
	switch {
	case j.engine.NeverFits(r.Backend, r.Resources) != "", !j.engine.IsRemote(r.Backend) &&
		j.engine.CheckGPU(r.GPU) != nil, b.Check(ctx) != nil:
		return false
	default:
		return j.engine.Judge(ctx, j.jobOf(c, r, "")) == nil
	}
}
