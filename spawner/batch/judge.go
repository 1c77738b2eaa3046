package batch

import (
	"cmp"
	"context"

	"slipway/spawner"
)

// Judge refuses what could never start there.
func (b *Backend) Judge(ctx context.Context, w spawner.Workload) error {
	return b.system.Judge(ctx, w, b.archFor(w))
}

// Why explains what a workload waits for that is in the queue.
func (b *Backend) Why(ctx context.Context, w spawner.Workload) (spawner.Explanation, error) {
	o, err := b.Observe(ctx, w.ID)
	if err != nil {
		return spawner.Explanation{}, err
	}
	if o.Existence == spawner.Held {
		return spawner.Explanation{Summary: b.Title() + " holds it: " + o.Reason, Remedy: o.Remedy}, nil
	}
	rec, _, err := b.records.Get(w.ID)
	if err != nil {
		return spawner.Explanation{}, err
	}
	return b.system.Why(ctx, w, rec, o)
}

// archFor returns for which machines a workload's environment is, as the batch system calls them; empty when that is
// not known before it starts.
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
	return b.system.Arch(arch)
}
