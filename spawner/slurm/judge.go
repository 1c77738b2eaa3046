package slurm

import (
	"context"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
)

// Judge refuses what no node could ever take, by Slurm's own word. A Slurm that does not answer, or complains of
// something else, refuses nothing: the service asks as root, whose rights are not the user's.
func (s *system) Judge(ctx context.Context, w spawner.Workload, _ string) error {
	if allowed, err := s.limits(ctx); err == nil {
		if err := fitsTime(w, allowed.maxTime); err != nil {
			return err
		}
	}
	options, err := s.options(w)
	if err != nil {
		return err
	}
	_, err = s.run(ctx, command.Command{
		Name: "sbatch", Args: append([]string{"--test-only", "--export=NIL"}, options...), Input: "#!/bin/sh\n",
	})
	if command.Complained(err, unfit) || command.Complained(err, tooLong) {
		return err
	}
	return nil
}

// What sbatch complains of where a job could never start.
const (
	unfit   = "requested node configuration is not available"
	tooLong = "requested time limit is invalid"
)

// Why says why a job waits.
func (*system) Why(
	_ context.Context, _ spawner.Workload, _ batch.Record, o spawner.Observation,
) (spawner.Explanation, error) {
	if o.Existence != spawner.Queued {
		return spawner.Explanation{}, errs.New(errs.Conflict, "it does not wait in Slurm's queue any more")
	}
	return spawner.Explanation{Summary: "Slurm: " + o.Detail, Remedy: o.Remedy}, nil
}
