package service

import (
	"context"
	"os"

	"slipway/internal/cvmfs"
	"slipway/spawner/docker"
	"slipway/spawner/local"
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

// cvmfsForDocker and cvmfsForJobs add what workloads see to the configuration of the backends of this host.
func cvmfsForDocker(d cvmfs.Directory, cfg *docker.Config) {
	if d.Path() != "" {
		cfg.Mounts = append(cfg.Mounts, docker.Mount{Source: d.Path(), Target: cvmfs.Inside, ReadOnly: true, Propagation: "rslave"})
		cfg.Outlook = d.Outlook
	}
}

func cvmfsForJobs(d cvmfs.Directory, cfg *local.Config) {
	if d.Path() != "" {
		cfg.Mounts = append(cfg.Mounts, local.Mount{Source: d.Path(), Target: cvmfs.Inside})
		cfg.Outlook = d.Outlook
	}
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
