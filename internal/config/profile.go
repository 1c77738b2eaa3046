package config

import (
	"fmt"
	"time"

	"slipway/internal/units"
)

// Profile is one kind of session that the site offers.
type Profile struct {
	Name          string   `yaml:"name"`         // by which the Hub and the command line name it
	DisplayName   string   `yaml:"display_name"` // what users read
	Description   string   `yaml:"description"`  // more of what users read
	Kind          string   `yaml:"kind" jsonschema:"enum=lab,enum=code"`
	Images        []string `yaml:"images"`     // names of images; the first is the default
	CPUs          float64  `yaml:"cpus"`       // of who does not say
	MaxCPUs       float64  `yaml:"max_cpus"`   // that users may choose; 0: cpus
	Memory        Size     `yaml:"memory"`     // of who does not say
	MaxMemory     Size     `yaml:"max_memory"` // that users may choose; 0: memory
	MaxPids       int64    `yaml:"max_pids"`
	MaxDisk       Bound    `yaml:"max_disk"`       // that its sessions may write beside the home; 0: no limit
	Default       bool     `yaml:"default"`        // chosen where a user does not say
	AllowedUsers  []string `yaml:"allowed_users"`  // to whom it is open; empty, and no groups: to everybody
	AllowedGroups []string `yaml:"allowed_groups"` // likewise
	// Where its sessions run.
	Backend string `yaml:"backend"`
	Rescue  bool   `yaml:"rescue"` // its sessions write nothing to the home by themselves

	GPU          string `yaml:"gpu"`           // what slice of one, as gpu.ParseRequest reads it
	GPUIsolation string `yaml:"gpu_isolation"` // the weakest that will do; empty: what the slice itself promises
	GPUModel     string `yaml:"gpu_model"`     // a part of the model's name; empty: any

	// When its sessions are stopped: see Example. Zero: never.
	IdleLimit    Duration `yaml:"idle_limit"`
	MaxAge       Duration `yaml:"max_age"`       // 0: any
	FirstConnect Duration `yaml:"first_connect"` // within which somebody must open it; 0: any time
	Warning      Duration `yaml:"warning"`       // before a stop
}

func (p *Profile) setDefaults() {
	*p = Profile{
		FirstConnect: Duration(20 * time.Minute), Warning: Duration(10 * time.Minute),
		Backend: BackendDocker,
	}
}

func (c Config) checkProfiles(p *problems) {
	for i, f := range c.Profiles {
		at := fmt.Sprintf("profiles[%d].", i)
		c.checkBackend(at, f.Backend, func(b Backend) bool { return b.Sessions }, p)
		for key, d := range map[string]Duration{
			"idle_limit": f.IdleLimit, "max_age": f.MaxAge, "first_connect": f.FirstConnect, "warning": f.Warning,
		} {
			if d < 0 {
				p.add(at+key, time.Duration(d), "0 for never, or a time such as 2h")
			}
		}
		if f.IdleLimit > 0 && f.IdleLimit < Duration(leastIdle) {
			p.add(
				at+"idle_limit", time.Duration(f.IdleLimit),
				fmt.Sprintf("at least %s, since activity is looked at once a minute", leastIdle),
			)
		}
		c.checkAudience(at, f, p)
		if f.MaxDisk < 0 || f.MaxDisk > 0 && f.MaxDisk < leastSessionDisk {
			p.add(
				at+"max_disk", units.DiskWords(int64(f.MaxDisk)),
				"none, or at least "+units.DiskWords(leastSessionDisk),
			)
		}
		if f.MaxDisk > 0 && BatchSystem(f.Backend) != "" {
			p.add(
				at+"max_disk", units.DiskWords(int64(f.MaxDisk)),
				"backend: docker; a batch system has limits of its own",
			)
		}
		if f.Rescue && BatchSystem(f.Backend) != "" {
			p.add(at+"rescue", f.Rescue, "backend: docker, where the homes are")
		}
	}
}

// checkAudience looks at to whom a profile is open. A group that nobody can be in would close it without a word.
func (c Config) checkAudience(at string, f Profile, p *problems) {
	for i, name := range f.AllowedUsers {
		if name == "" {
			p.add(
				fmt.Sprintf("%sallowed_users[%d]", at, i), name,
				"the name of a user; of another realm than the site's: @realm/name",
			)
		}
	}
	for i, name := range f.AllowedGroups {
		if !c.isGroup(name) {
			p.add(fmt.Sprintf("%sallowed_groups[%d]", at, i), name, someGroup)
		}
	}
}

// leastSessionDisk is the smallest limit of a session's disk: what starts in it writes some of that.
const leastSessionDisk = 100e6

// BusyCPU is how many processors a session uses at least that computes, though no kernel says so. An idle JupyterLab or
// VS Code uses less than a tenth of one.
const BusyCPU = 0.1

// leastIdle is the shortest idle limit that the looks at activity can serve.
const leastIdle = 2 * time.Minute
