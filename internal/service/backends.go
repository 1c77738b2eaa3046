package service

import "slipway/spawner"

// backends returns all that the site has.
func (s *service) backends() []spawner.Backend {
	all := []spawner.Backend{s.docker, s.local}
	if s.htcondor != nil {
		all = append(all, s.htcondor)
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
	if s.htcondor != nil {
		out[s.htcondor.Name()] = spawner.Capacity{PerUser: s.cfg.HTCondor.MaxJobsPerUser}
	}
	return out
}
