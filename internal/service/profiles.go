package service

import (
	"errors"
	"slices"
	"time"

	"slipway/internal/config"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/catalog"
	"slipway/spawner/htcondor"
)

// CheckConfig finds what the configuration asks for and cannot be had, as far as that can be known without looking at
// the host.
func CheckConfig(c config.Config) error {
	lines := htcondor.Config{Requirements: c.HTCondor.Requirements, Rank: c.HTCondor.Rank, Extra: c.HTCondor.Extra}
	return errors.Join(catalogueOf(c).Check(), checkSlices(c), lines.CheckLines())
}

// catalogueOf makes the catalogue of profiles that the configuration describes.
func catalogueOf(c config.Config) catalog.Catalogue {
	cat := catalog.Catalogue{BatchSystems: config.BatchSystems(), HomesApart: map[string]bool{}}
	for backend := range cat.BatchSystems {
		cat.HomesApart[backend] = !c.BatchOf(backend).HomeDirs
	}
	for _, i := range c.Images {
		cat.Images = append(cat.Images, catalog.ImageChoice{Name: i.Name, Title: i.DisplayName, Ref: i.Ref})
	}
	for _, p := range c.Profiles {
		cat.Profiles = append(cat.Profiles, catalog.Profile{
			Name: p.Name, Title: p.DisplayName, Description: p.Description, Kind: spawner.Kind(p.Kind),
			Backend: backendOf(p), Images: p.Images,
			CPUs: p.CPUs, MaxCPUs: p.MaxCPUs, Memory: int64(p.Memory), MaxMemory: int64(p.MaxMemory), Pids: p.MaxPids,
			Disk: int64(p.MaxDisk), Default: p.Default, Ready: "api", GPU: sliceOf(p),
			Users: p.AllowedUsers, Groups: p.AllowedGroups, Rescue: p.Rescue,
			Life: spawner.Life{
				Idle: time.Duration(p.IdleLimit), MaxAge: time.Duration(p.MaxAge),
				FirstConnect: time.Duration(p.FirstConnect),
				Warning:      time.Duration(p.Warning), MaxKeep: maxKeep, BusyCPU: config.BusyCPU,
			},
		})
	}
	return cat
}

// maxKeep is for how long `slipway keep` holds off the idle limit at most.
const maxKeep = 24 * time.Hour

// errGroups is why it is not known whether a profile is open to somebody. Whoever reads it may be its user, or a
// service that asks for her.
var errGroups = errors.New("the Hub cannot be asked for your groups just now")

// member says whether a hub's user is one of those whom a profile names; an error: the Hub alone knows, and has not
// said for some time.
func (s *service) member(hub string, user spawner.User, p catalog.Profile) (bool, error) {
	if slices.Contains(p.Users, s.principal(hub, user)) {
		return true, nil
	}
	groups, all := s.groupsAt(hub, user)
	if slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(p.Groups, group) }) {
		return true, nil
	}
	if !all && slices.ContainsFunc(p.Groups, func(group string) bool { return s.fromHub(group, hub) }) {
		return false, errGroups
	}
	return false, nil
}

// sliceOf reads what a profile's sessions get of a GPU. The configuration was checked, so it can be read.
func sliceOf(p config.Profile) gpu.Request {
	r, _ := gpu.ParseRequest(p.GPU)
	if !r.None() {
		r.Least, r.Model = gpu.Tier(p.GPUIsolation), p.GPUModel
	}
	return r
}

// backendOf names where a profile's sessions run, unless that is where all others do.
func backendOf(p config.Profile) string {
	if config.BatchSystem(p.Backend) == "" {
		return ""
	}
	return p.Backend
}

func jobPolicyOf(cfg config.Config) catalog.JobPolicy {
	c, most := cfg.Jobs, map[string]catalog.JobMost{}
	for backend, l := range cfg.EnabledBatch() {
		most[backend] = catalog.JobMost{CPUs: l.MaxCPUs, Memory: int64(l.MaxMemory)}
	}
	return catalog.JobPolicy{
		DefaultCPUs: c.DefaultCPUs, MaxCPUs: c.MaxCPUs, DefaultMemory: int64(c.DefaultMemory),
		MaxMemory:   int64(c.MaxMemory),
		DefaultTime: time.Duration(c.DefaultTime), MaxTime: time.Duration(c.MaxTime), GPUs: c.GPUs,
		Backend: c.Backend,
		Most:    most,
	}
}
