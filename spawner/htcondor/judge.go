package htcondor

import (
	"cmp"
	"context"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor/pool"
)

// Judge refuses what could never start in the pool.
func (b *Backend) Judge(ctx context.Context, w spawner.Workload) error {
	d := b.demand(w, b.archFor(w), 0)
	if b.cfg.Pool == nil {
		return pool.CheckGPUs(d.GPU)
	}
	return b.cfg.Pool.Judge(ctx, d)
}

// Why explains what a workload waits for that is in the queue.
func (b *Backend) Why(ctx context.Context, w spawner.Workload) (spawner.Explanation, error) {
	o, err := b.Observe(ctx, w.ID)
	if err != nil {
		return spawner.Explanation{}, err
	}
	if o.Existence == spawner.Held {
		return spawner.Explanation{Summary: "HTCondor holds it: " + o.Reason, Remedy: o.Remedy}, nil
	}
	rec, _, err := b.records.Get(w.ID)
	if err != nil {
		return spawner.Explanation{}, err
	}
	if b.cfg.Pool == nil {
		return spawner.Explanation{}, errs.New(errs.Missing, "the pool's machines are not known here")
	}
	e, err := b.cfg.Pool.Explain(ctx, b.demand(w, rec.Arch, rec.Bytes))
	if err != nil || e.Fit == 0 || o.Existence != spawner.Queued {
		return e, err
	}
	return b.cfg.Pool.InLine(ctx, rec.Job, e), nil
}

// forewarn tells the user that what they have asked for waits for machines that are not there now.
func (b *Backend) forewarn(l spawner.Launch, r batch.Record) {
	if b.cfg.Pool == nil {
		return
	}
	if text := b.cfg.Pool.Forewarning(b.demand(l.Workload, r.Arch, r.Bytes)); text != "" {
		l.Report("HTCondor: "+text, -1)
	}
}

// archFor returns for which machines a workload's environment is, as HTCondor calls them; empty when that is not known
// before it starts.
func (b *Backend) archFor(w spawner.Workload) string {
	digest := cmp.Or(w.From, w.Kept, w.Spec.Environment)
	if digest == "" || b.cfg.Arch == nil {
		return ""
	}
	arch, err := b.cfg.Arch(digest)
	if err != nil {
		b.log.Warn(
			"a workload is taken though it is not known for which machines its environment is", "environment", digest,
			"error", err,
		)
	}
	return archName(arch)
}

// archName returns HTCondor's name for what Go and OCI call an architecture; empty for others, of which a job may go
// anywhere.
func archName(arch string) string {
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
