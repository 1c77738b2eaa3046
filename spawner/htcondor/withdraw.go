package htcondor

import (
	"context"
	"fmt"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Withdraw takes back a workload that has never begun to run. Whether it has is the schedd's word at the moment at which it removes the
// job, not that of a look before.
func (b *Backend) Withdraw(ctx context.Context, id spawner.ID) error {
	if err := b.knows(id); err != nil {
		return err
	}
	if err := b.withdraw(ctx, id); err != nil {
		return fmt.Errorf("take back %s: %w", id, err)
	}
	return nil
}

func (b *Backend) withdraw(ctx context.Context, id spawner.ID) error {
	jobs, err := b.seek(ctx, id)
	if err != nil {
		return err
	}
	rec, known, err := b.shelf.get(id)
	if err != nil {
		return err
	}
	if len(jobs) == 0 && known && rec.Job != "" {
		return errs.New(errs.Conflict, "its job %s has left HTCondor's queue already", rec.Job)
	}
	if jobs, err = b.expel(ctx, id, jobs, job.waiting, true); err != nil {
		return err
	}
	if i := slices.IndexFunc(jobs, job.ran); i >= 0 {
		return errs.New(errs.Conflict, "its job %s has begun to run", jobs[i].name())
	}
	b.queue.forget(id)
	return b.shelf.drop(id)
}

// waiting reports whether a job has never begun, and may.
func (j job) waiting() bool { return !j.ran() && j.live() }
