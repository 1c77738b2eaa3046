package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Withdraw takes back a workload that has never begun to run. Whether it has is the batch system's word at the moment at
// which it removes the job, not that of a look before.
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
	rec, known, err := b.records.Get(id)
	if err != nil {
		return err
	}
	switch {
	case len(jobs) > 0:
		if err := b.takeBack(ctx, id, rec, jobs); err != nil {
			return err
		}
	case known && rec.Job != "" && !rec.Withdrawn:
		return errs.New(errs.Conflict, "its job %s has left %s's queue already", rec.Job, b.Title())
	}
	b.queue.Forget(id)
	return b.records.Drop(id)
}

// takeBack removes the jobs of a workload that have not begun. That it does so is noted before: this service may not
// live to see it done.
func (b *Backend) takeBack(ctx context.Context, id spawner.ID, rec Record, jobs []Job) error {
	rec.ID, rec.Withdrawn = id, true // the record may be lost
	if err := b.records.Amend(rec); err != nil {
		return err
	}
	jobs, err := b.expel(ctx, id, jobs, Job.waiting, true)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(jobs, Job.begun); i >= 0 {
		rec.Withdrawn = false
		return errors.Join(errs.New(errs.Conflict, "its job %s has begun to run", jobs[i].Name), b.records.Amend(rec))
	}
	return nil
}
