package config

import (
	"slices"
	"strings"
)

// The names of backends, as they stand in profiles and in jobs.
const (
	BackendDocker   = "docker"
	BackendLocal    = "local"
	BackendHTCondor = "htcondor"
	BackendSlurm    = "slurm"
)

// Backend is what the configuration has to know of a place where workloads run.
type Backend struct {
	Name     string
	Sessions bool   // runs sessions
	Jobs     bool   // runs jobs
	System   string // the batch system that runs them on other hosts, as people write it; empty: they run on this host
	// Enabled reports whether the site has it; nil: every site does. Switch is the key that says so.
	Enabled func(Config) bool
	Switch  string
	// What follows is of a batch system. Nodes says what workloads find on its nodes, and Limits what the site allows
	// there; check looks at its part of the configuration.
	Nodes  func(Config) Nodes
	Limits func(Config) BatchLimits
	check  func(Config, *problems)
}

// Nodes is what workloads find on the hosts of a batch system.
type Nodes struct {
	HomeDirs bool     // the users' homes, where this host has them
	Binds    []string // directories of the node, where they are there
}

// BatchLimits are what the site allows in a batch system. Zero: as of all jobs.
type BatchLimits struct {
	MaxCPUs        float64 // of one job
	MaxMemory      Size    // of one job
	MaxJobsPerUser int     // in the queue at once
}

// Backends returns all that there are, those of this host first.
func Backends() []Backend {
	return []Backend{
		{Name: BackendDocker, Sessions: true},
		{Name: BackendLocal, Jobs: true},
		{
			Name: BackendHTCondor, Sessions: true, Jobs: true, System: "HTCondor",
			Enabled: func(c Config) bool { return c.HTCondor.Enabled }, Switch: "htcondor.enabled",
			Nodes:  func(c Config) Nodes { return Nodes{c.HTCondor.HomeDirs, c.HTCondor.Binds} },
			Limits: func(c Config) BatchLimits { return c.HTCondor.limits() }, check: Config.checkHTCondor,
		},
		{
			Name: BackendSlurm, Jobs: true, System: "Slurm",
			Enabled: func(c Config) bool { return c.Slurm.Enabled }, Switch: "slurm.enabled",
			Nodes:  func(c Config) Nodes { return Nodes{c.Slurm.HomeDirs, c.Slurm.Binds} },
			Limits: func(c Config) BatchLimits { return c.Slurm.limits() }, check: Config.checkSlurm,
		},
	}
}

// BatchSystem returns the name, as people write it, of the batch system whose backend it is; empty: the backend runs
// workloads on this host, or there is none of that name.
func BatchSystem(backend string) string { return BatchSystems()[backend] }

// BatchSystems returns those names by the backends' own.
func BatchSystems() map[string]string {
	systems := map[string]string{}
	for _, b := range Backends() {
		if b.System != "" {
			systems[b.Name] = b.System
		}
	}
	return systems
}

// NodesOf returns what workloads find where a backend runs them; of one of this host, nothing.
func (c Config) NodesOf(backend string) Nodes {
	for _, b := range Backends() {
		if b.Name == backend && b.Nodes != nil {
			return b.Nodes(c)
		}
	}
	return Nodes{}
}

// LimitsOf returns what the site allows in each batch system that it has, by the backend's name.
func (c Config) LimitsOf() map[string]BatchLimits {
	all := map[string]BatchLimits{}
	for _, b := range Backends() {
		if b.Limits != nil && b.Enabled(c) {
			all[b.Name] = b.Limits(c)
		}
	}
	return all
}

// hasBatchSystem reports whether workloads can run on other hosts.
func (c Config) hasBatchSystem() bool {
	return slices.ContainsFunc(Backends(), func(b Backend) bool { return b.System != "" && b.Enabled(c) })
}

// checkBackends looks at where jobs run, and at the parts of batch systems.
func (c Config) checkBackends(p *problems) {
	c.checkBackend("jobs.", c.Jobs.Backend, func(b Backend) bool { return b.Jobs }, p)
	for _, b := range Backends() {
		if b.check != nil {
			b.check(c, p)
		}
	}
}

// checkBackend looks at where sessions or jobs run.
func (c Config) checkBackend(at, backend string, runs func(Backend) bool, p *problems) {
	var names, enabled []string
	for _, b := range Backends() {
		switch {
		case !runs(b):
			continue
		case b.Enabled == nil || b.Enabled(c):
			enabled = append(enabled, b.Name)
		case b.Name == backend:
			p.add(at+"backend", backend, strings.Join(enabled, " or ")+", or "+b.Switch+" set to true")
			return
		}
		names = append(names, b.Name)
	}
	if !slices.Contains(names, backend) {
		p.add(at+"backend", backend, strings.Join(names, " or "))
	}
}
