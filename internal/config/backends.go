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
	// Batch returns its part of the configuration, and check looks at what it alone has there. nil: it is no batch system.
	Batch func(Config) Batch
	check func(Config, *problems)
}

// Backends returns all that there are, those of this host first.
func Backends() []Backend {
	return []Backend{
		{Name: BackendDocker, Sessions: true},
		{Name: BackendLocal, Jobs: true},
		{
			Name: BackendHTCondor, Sessions: true, Jobs: true, System: "HTCondor",
			Batch: func(c Config) Batch { return c.HTCondor.Batch }, check: Config.checkHTCondor,
		},
		{
			Name: BackendSlurm, Sessions: true, Jobs: true, System: "Slurm",
			Batch: func(c Config) Batch { return c.Slurm.Batch }, check: Config.checkSlurm,
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

// BatchOf returns the configuration of a backend's batch system; of a backend of this host, nothing.
func (c Config) BatchOf(backend string) Batch {
	for _, b := range Backends() {
		if b.Name == backend && b.Batch != nil {
			return b.Batch(c)
		}
	}
	return Batch{}
}

// EnabledBatch returns the configuration of each batch system that the site has, by the backend's name.
func (c Config) EnabledBatch() map[string]Batch {
	enabled := map[string]Batch{}
	for _, b := range Backends() {
		if b.Batch != nil && b.Batch(c).Enabled {
			enabled[b.Name] = b.Batch(c)
		}
	}
	return enabled
}

// checkBackends looks at where jobs run, and at the parts of batch systems.
func (c Config) checkBackends(p *problems) {
	c.checkBackend("jobs.", c.Jobs.Backend, func(b Backend) bool { return b.Jobs }, p)
	for _, b := range Backends() {
		if b.Batch != nil {
			c.checkBatch(b, p)
		}
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
		case b.Batch == nil || b.Batch(c).Enabled:
			enabled = append(enabled, b.Name)
		case b.Name == backend:
			p.add(at+"backend", backend, strings.Join(enabled, " or ")+", or "+b.Name+".enabled set to true")
			return
		}
		names = append(names, b.Name)
	}
	if !slices.Contains(names, backend) {
		p.add(at+"backend", backend, strings.Join(names, " or "))
	}
}
