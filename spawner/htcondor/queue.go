package htcondor

import (
	"context"
	"fmt"

	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
)

// Queue looks at the queue.
func (s *system) Queue(ctx context.Context) ([]batch.Job, error) {
	jobs, err := s.list(ctx, "condor_q", "-allusers")
	if err != nil {
		return nil, fmt.Errorf("ask HTCondor for its queue: %w", err)
	}
	all := make([]batch.Job, len(jobs))
	for i, j := range jobs {
		all[i] = j.seen()
	}
	return all, nil
}

// historyLimit is how many jobs that have left the queue are looked through for one, the latest first.
const historyLimit = "20000"

// History looks at the jobs that have left the queue, the latest first.
func (s *system) History(ctx context.Context) ([]batch.Job, error) {
	jobs, err := s.list(ctx, "condor_history", "-scanlimit", historyLimit)
	if err != nil {
		return nil, fmt.Errorf("ask HTCondor for its history: %w", err)
	}
	all := make([]batch.Job, len(jobs))
	for i, j := range jobs {
		all[i] = j.seen()
		all[i].End = j.gone()
	}
	return all, nil
}

// list has a command print this service's jobs.
func (s *system) list(ctx context.Context, name string, args ...string) ([]job, error) {
	args = append(args, "-json", "-attributes", attributes(), "-constraint", s.constraint())
	out, err := s.run(ctx, command.Command{Name: name, Args: args})
	if err != nil {
		return nil, err
	}
	return parseJobs(out, s.marker)
}

// constraint asks for the jobs of this instance. What others submit in their likeness could be large, and all of it
// would be printed.
func (s *system) constraint() string {
	return attrInstance + " == " + quoted(s.cfg.Instance) + " && size(" + attrMark + ") == 64 && size(" + attrID +
		") <= 42 && size(" + attrLaunch + ") <= 1000"
}
