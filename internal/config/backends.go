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
}

// Backends returns all that there are, those of this host first.
func Backends() []Backend {
	return []Backend{
		{Name: BackendDocker, Sessions: true},
		{Name: BackendLocal, Jobs: true},
		{
			Name: BackendHTCondor, Sessions: true, Jobs: true, System: "HTCondor",
			Enabled: func(c Config) bool { return c.HTCondor.Enabled }, Switch: "htcondor.enabled",
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
