package config

import (
	"fmt"
	"slices"

	"slipway/internal/gpu"
)

// The words of gpu.driver.
const (
	DriverNone      = "none"
	DriverNVML      = "nvml"
	DriverSimulated = "simulated"
)

// GPU says which GPUs there are, what each is used for, and by what rules.
type GPU struct {
	Driver     string              `yaml:"driver" jsonschema:"enum=none,enum=nvml,enum=simulated"`
	Simulated  []string            `yaml:"simulated"` // models, of driver simulated
	Devices    []GPURule           `yaml:"devices"`
	Placement  string              `yaml:"placement" jsonschema:"enum=frag,enum=pack,enum=first"`
	Headroom   float64             `yaml:"headroom"`
	SwitchMIG  bool                `yaml:"switch_mig"`
	SelfTest   bool                `yaml:"self_test"`
	Sharing    map[string][]string `yaml:"sharing"`
	Preemption Preemption          `yaml:"preemption"`
}

// GPURule says what GPUs are used for.
type GPURule struct {
	// Match is "*", an index, the beginning of a UUID, or a part of the model's name.
	Match string `yaml:"match" jsonschema:"oneof_type=string;integer"`
	// How its parts are given out.
	Mode         string   `yaml:"mode" jsonschema:"enum=whole,enum=mig,enum=mps,enum=shared"`
	Layout       []string `yaml:"layout"`        // mig: instances that are made once and kept; empty: as needed
	Adopt        bool     `yaml:"adopt"`         // mig: use instances that somebody else has made
	MaxWorkloads int      `yaml:"max_workloads"` // mps, shared: most workloads; 0: 48 and 4
	Drain        bool     `yaml:"drain"`         // nothing new starts on it
}

// Preemption says whether idle slices of sessions are lent to jobs.
type Preemption struct {
	Enabled bool `yaml:"enabled"` // idle slices of sessions are lent to jobs
}

func defaultGPU() GPU {
	return GPU{
		Driver: DriverNone, Devices: []GPURule{{Match: "*", Mode: "whole"}}, Placement: "frag", SelfTest: true,
	}
}

func (r *GPURule) setDefaults() {
	*r = GPURule{Match: "*"}
}

func (c Config) checkGPU(p *problems) {
	g := c.GPU
	oneOf := func(field, value string, words ...string) {
		if !slices.Contains(words, value) {
			p.add(field, value, fmt.Sprintf("one of %v", words))
		}
	}
	oneOf("gpu.driver", g.Driver, DriverNone, DriverNVML, DriverSimulated)
	oneOf("gpu.placement", g.Placement, "frag", "pack", "first")
	if g.Headroom < 0 || g.Headroom > 1 {
		p.add("gpu.headroom", g.Headroom, "from 0 to 1")
	}
	if g.Driver == DriverSimulated && len(g.Simulated) == 0 {
		p.add("gpu.simulated", "[]", "at least one model, such as H200")
	}
	for i, r := range g.Devices {
		at := fmt.Sprintf("gpu.devices[%d].", i)
		oneOf(at+"mode", r.Mode, "whole", "mig", "mps", "shared")
		if r.Match == "" {
			p.add(at+"match", r.Match, `"*", an index, the beginning of a UUID, or a part of the model's name`)
		}
		if r.MaxWorkloads < 0 {
			p.add(at+"max_workloads", r.MaxWorkloads, "0 or more")
		}
		if r.Mode != "mig" && len(r.Layout) > 0 {
			p.add(at+"layout", r.Layout, "left out: it is for mode mig")
		}
		if r.Adopt && (r.Mode != "mig" || len(r.Layout) > 0) {
			p.add(
				at+"adopt", r.Adopt,
				"for mode mig only, and without layout: either somebody else makes the instances, or Slipway does",
			)
		}
		if r.MaxWorkloads > 0 && r.Mode != "mps" && r.Mode != "shared" {
			p.add(at+"max_workloads", r.MaxWorkloads, "left out: it is for modes mps and shared")
		}
		for _, name := range r.Layout {
			if q, err := gpu.ParseRequest(name); err != nil || q.Mode != gpu.MIG {
				p.add(at+"layout", name, "MIG profiles such as 1g.18gb")
			}
		}
	}
	for i, f := range c.Profiles {
		c.checkRequest(p, fmt.Sprintf("profiles[%d].", i), f.GPU, f.GPUIsolation, BatchSystem(f.Backend) != "")
	}
	for _, name := range c.Jobs.GPUs {
		if name != "*" {
			c.checkRequest(p, "jobs.", name, "", len(c.EnabledBatch()) > 0)
		}
	}
}

// checkRequest looks at what is asked of a GPU of this host, or with pool of any host.
func (c Config) checkRequest(p *problems, at, request, tier string, pool bool) {
	r, err := gpu.ParseRequest(request)
	switch {
	case err != nil:
		p.add(at+"gpu", request, "whole, a MIG profile such as 1g.18gb or 1g, mps:25%/20G, shared, or shared/10G")
	case tier != "" && !slices.Contains(gpu.Tiers(), gpu.Tier(tier)):
		p.add(at+"gpu_isolation", tier, fmt.Sprintf("one of %v", gpu.Tiers()))
	case (r.Mode == gpu.MPS || r.Mode == gpu.Shared) && gpu.Tier(tier) == gpu.Hardware:
		p.add(
			at+"gpu_isolation", tier,
			fmt.Sprintf("cgroup at most: no slice of mode %s is kept apart in hardware", r.Mode),
		)
	case !r.None() && c.GPU.Driver == DriverNone && !pool:
		p.add(at+"gpu", request, "left out, or gpu.driver set to nvml or simulated")
	}
}
