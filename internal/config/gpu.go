package config

import (
	"fmt"
	"slices"
	"time"

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
	Driver     string              `yaml:"driver"`    // none, nvml, simulated
	Helper     string              `yaml:"helper"`    // the program that speaks to the driver
	Simulated  []string            `yaml:"simulated"` // models, of driver simulated
	Devices    []GPURule           `yaml:"devices"`
	Placement  string              `yaml:"placement"` // frag, pack, first
	Headroom   float64             `yaml:"headroom"`
	SwitchMIG  bool                `yaml:"switch_mig"`
	SelfTest   bool                `yaml:"self_test"`
	Quarantine Duration            `yaml:"quarantine"`
	Sample     Duration            `yaml:"sample"`
	IdleAfter  Duration            `yaml:"idle_after"`
	BusySM     float64             `yaml:"busy_sm"` // percent
	Groups     map[string][]string `yaml:"groups"`
	MPS        MPS                 `yaml:"mps"`
	Lend       Lend                `yaml:"lend"`
}

// GPURule says what GPUs are used for.
type GPURule struct {
	Match  string   `yaml:"match"` // "*", an index, the beginning of a UUID, or a part of the model's name
	Mode   string   `yaml:"mode"`
	Layout []string `yaml:"layout"`  // mig: instances that are made once and kept; empty: as needed
	Adopt  bool     `yaml:"adopt"`   // mig: use instances that somebody else has made
	AtOnce int      `yaml:"at_once"` // mps, shared: most workloads; 0: 48 and 4
	Drain  bool     `yaml:"drain"`   // nothing new starts on it
}

// MPS says where the daemons are.
type MPS struct {
	Control string `yaml:"control"` // NVIDIA's program
	Dir     string `yaml:"dir"`
}

// Lend says whether idle slices of sessions are lent to jobs.
type Lend struct {
	On     bool     `yaml:"enabled"`
	After  Duration `yaml:"after"`  // the slice was idle
	Recall Duration `yaml:"recall"` // between telling a job and killing it
}

func defaultGPU() GPU {
	return GPU{
		Driver: DriverNone, Helper: "slipway-gpu", Devices: []GPURule{{Match: "*", Mode: "whole"}}, Placement: "frag", SelfTest: true, Quarantine: Duration(30 * time.Minute),
		Sample: Duration(10 * time.Second), IdleAfter: Duration(10 * time.Minute), BusySM: 1,
		MPS:  MPS{Control: "nvidia-cuda-mps-control", Dir: "/run/slipway/mps"},
		Lend: Lend{After: Duration(20 * time.Minute), Recall: Duration(30 * time.Second)},
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
	if g.Driver == DriverSimulated && len(g.Simulated) == 0 {
		p.add("gpu.simulated", "[]", "at least one model, such as H200")
	}
	if g.Headroom < 0 || g.Headroom > 1 {
		p.add("gpu.headroom", g.Headroom, "from 0 to 1")
	}
	for key, d := range map[string]Duration{
		"quarantine": g.Quarantine, "sample": g.Sample, "idle_after": g.IdleAfter, "lend.after": g.Lend.After, "lend.recall": g.Lend.Recall,
	} {
		if d <= 0 {
			p.add("gpu."+key, time.Duration(d), "a time such as 10m")
		}
	}
	if g.BusySM < 0 || g.BusySM > 100 {
		p.add("gpu.busy_sm", g.BusySM, "percent, from 0 to 100")
	}
	p.absolute("gpu.mps.dir", g.MPS.Dir)
	for i, r := range g.Devices {
		at := fmt.Sprintf("gpu.devices[%d].", i)
		oneOf(at+"mode", r.Mode, "whole", "mig", "mps", "shared")
		if r.Match == "" {
			p.add(at+"match", r.Match, `"*", an index, the beginning of a UUID, or a part of the model's name`)
		}
		if r.AtOnce < 0 {
			p.add(at+"at_once", r.AtOnce, "0 or more")
		}
		if r.Mode != "mig" && len(r.Layout) > 0 {
			p.add(at+"layout", r.Layout, "left out: it is for mode mig")
		}
		if r.Adopt && (r.Mode != "mig" || len(r.Layout) > 0) {
			p.add(at+"adopt", r.Adopt, "for mode mig only, and without layout: either somebody else makes the instances, or Slipway does")
		}
		if r.AtOnce > 0 && r.Mode != "mps" && r.Mode != "shared" {
			p.add(at+"at_once", r.AtOnce, "left out: it is for modes mps and shared")
		}
		for _, name := range r.Layout {
			if q, err := gpu.ParseRequest(name); err != nil || q.Mode != gpu.MIG {
				p.add(at+"layout", name, "MIG profiles such as 1g.18gb")
			}
		}
	}
	for i, f := range c.Profiles {
		c.checkRequest(p, fmt.Sprintf("profiles[%d].", i), f.GPU, f.GPUIsolation, f.Backend == BackendHTCondor)
	}
	for _, name := range c.Jobs.GPUs {
		if name != "*" {
			c.checkRequest(p, "jobs.", name, "", c.HTCondor.On)
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
		p.add(at+"gpu_isolation", tier, fmt.Sprintf("cgroup at most: no slice of mode %s is kept apart in hardware", r.Mode))
	case !r.None() && c.GPU.Driver == DriverNone && !pool:
		p.add(at+"gpu", request, "left out, or gpu.driver set to nvml or simulated")
	}
}
