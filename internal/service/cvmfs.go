package service

import (
	"context"
	"os"

	"slipway/internal/cvmfs"
)

// makeCVMFS refuses to serve where workloads would not see what is mounted after their start. A directory that does not
// answer is a matter of the hour, and told at each start.
func (s *service) makeCVMFS(ctx context.Context) error {
	locks := s.path("probes")
	if err := os.MkdirAll(locks, 0o700); err != nil {
		return err
	}
	var err error
	if s.cvmfs, err = cvmfs.Open(s.cfg.Data.CVMFS, locks, s.log); err != nil || s.cvmfs.Path() == "" {
		return err
	}
	return s.cvmfs.Check(ctx, true)
}

// processes returns processes of all workloads that run on this host.
func (s *service) processes(ctx context.Context) ([]int, error) {
	sessions, err := s.docker.Processes(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := s.local.Processes(ctx)
	return append(sessions, jobs...), err
}
