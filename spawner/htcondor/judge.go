package htcondor

import (
	"context"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor/pool"
)

// Judge refuses what could never start in the pool.
func (s *system) Judge(ctx context.Context, w spawner.Workload, arch string) error {
	d := s.demand(w, arch, 0)
	if s.cfg.Pool == nil {
		return pool.CheckGPUs(d.GPU)
	}
	return s.cfg.Pool.Judge(ctx, d)
}

// Why explains what a workload waits for that is in the queue.
func (s *system) Why(
	ctx context.Context, w spawner.Workload, r batch.Record, o spawner.Observation,
) (spawner.Explanation, error) {
	if s.cfg.Pool == nil {
		return spawner.Explanation{}, errs.New(errs.Missing, "the pool's machines are not known here")
	}
	e, err := s.cfg.Pool.Explain(ctx, s.demand(w, r.Arch, r.Bytes))
	if err != nil || e.Fit == 0 || o.Existence != spawner.Queued {
		return e, err
	}
	return s.cfg.Pool.InLine(ctx, r.Job, e), nil
}

// warning tells the user that what they have asked for waits for machines that are not there now.
func (s *system) warning(w spawner.Workload, r batch.Record) string {
	if s.cfg.Pool == nil {
		return ""
	}
	return s.cfg.Pool.Forewarning(s.demand(w, r.Arch, r.Bytes))
}

// Arch returns HTCondor's name for what Go and OCI call an architecture; empty for others, of which a job may go
// anywhere.
func (s *system) Arch(arch string) string {
	switch arch {
	case "amd64":
		return "X86_64"
	case "arm64":
		return "aarch64"
	case "ppc64le":
		return "ppc64le"
	default:
		return ""
	}
}
