package service

import (
	"context"

	"slipway/internal/service/backends"
	"slipway/spawner"
	"slipway/spawner/batch"
)

// makeBatchSystems makes the backends of the batch systems that the site has.
func (s *service) makeBatchSystems() error {
	host := backends.Host{Config: s.cfg, Key: s.box.Derive, Arch: s.architecture, Log: s.log}
	for _, system := range []func() (*batch.Backend, error){
		func() (*batch.Backend, error) { return host.HTCondor(s.pool) }, host.Slurm,
	} {
		b, err := system()
		if err != nil {
			return err
		}
		if b != nil {
			s.batch = append(s.batch, b)
		}
	}
	return nil
}

// runBatchSystems looks after what sessions and jobs on other hosts need of this service.
func (s *service) runBatchSystems(ctx context.Context, run func(func() error)) {
	for _, b := range s.batch {
		run(func() error { return b.Watch(ctx, s.engine.Wake) })
	}
	if s.pool != nil {
		run(func() error { return s.pool.Run(ctx) })
	}
}

// backends returns all that the site has.
func (s *service) backends() []spawner.Backend {
	all := []spawner.Backend{s.docker, s.local}
	for _, b := range s.batch {
		all = append(all, b)
	}
	return all
}

// capacity says what workloads may lease of each backend.
func (s *service) capacity() map[string]spawner.Capacity {
	out := map[string]spawner.Capacity{
		s.docker.Name(): {CPUs: s.cfg.Docker.MaxTotalCPUs, Memory: int64(s.cfg.Docker.MaxTotalMemory)},
		s.local.Name():  {Count: s.cfg.Local.MaxJobs},
		spawner.Host:    {CPUs: s.cfg.Host.MaxTotalCPUs, Memory: int64(s.cfg.Host.MaxTotalMemory)},
	}
	for backend, l := range s.cfg.EnabledBatch() {
		out[backend] = spawner.Capacity{PerUser: l.MaxJobsPerUser}
	}
	return out
}
