package config

import (
	"strings"
	"testing"
	"time"
)

func TestKernels(t *testing.T) {
	profiles := []Profile{{Name: "cpu", Backend: BackendDocker, Images: []string{"notebook"}, CPUs: 1, MaxCPUs: 2, Memory: 1 << 30}}
	good := KernelSpec{Name: "python", Profile: "cpu", Argv: pythonKernel(), Interrupt: "signal", IdleLimit: Duration(time.Hour)}
	site := Config{Profiles: profiles, Docker: Docker{MaxTotalCPUs: 4}, GPU: GPU{Driver: "simulated"}, Data: Data{Stacks: []Stack{{Name: "lcg"}}}}
	for _, tt := range []struct {
		field string
		edit  func(*KernelSpec)
	}{
		{"", func(*KernelSpec) {}},
		{"name", func(k *KernelSpec) { k.Name = "a/b" }},
		{"", func(k *KernelSpec) { k.DisplayName = "{language} on {gpu}, {available}" }},
		{"display_name", func(k *KernelSpec) { k.DisplayName = "Python {grape}" }},
		{"display_name", func(k *KernelSpec) { k.DisplayName = "two\nlines" }},
		{"", func(k *KernelSpec) {
			k.GPU, k.GPUs, k.CPUs, k.Memory = "mps:25%/20G", []string{"1g.18gb", "whole"}, 2, 1<<30
		}},
		{"gpu", func(k *KernelSpec) { k.GPUs = []string{"a lot"} }},
		{"cpus", func(k *KernelSpec) { k.CPUs = 3 }},
		{"memory", func(k *KernelSpec) { k.Memory = 2 << 30 }},
		{"", func(k *KernelSpec) { k.Environment = "alice/ana:v1" }},
		{"environment", func(k *KernelSpec) { k.Environment, k.Stack = "ana:v1", "lcg" }},
		{"", func(k *KernelSpec) { k.Environments = EnvironmentsOwn }},
		{"environments", func(k *KernelSpec) { k.Environments = "all" }},
		{"image", func(k *KernelSpec) { k.Environments, k.Image = EnvironmentsOwn, "notebook" }},
		{"", func(k *KernelSpec) { k.Stack = "lcg" }},
		{"", func(k *KernelSpec) { k.Stacks = []string{AllStacks} }},
		{"stacks", func(k *KernelSpec) { k.Stacks = []string{"other"} }},
		{"stack:", func(k *KernelSpec) { k.Stack = AllStacks }},
		{"stack:", func(k *KernelSpec) { k.Stack = "other" }},
		{"argv", func(k *KernelSpec) { k.Stack, k.Argv = "lcg", []string{"R", ConnectionFile} }},
		{"logo", func(k *KernelSpec) { k.Logo = "/nowhere.svg" }},
		{"argv", func(k *KernelSpec) { k.Argv = []string{"python3"} }},
		{"interrupt_mode", func(k *KernelSpec) { k.Interrupt = "shout" }},
		{"idle_limit", func(k *KernelSpec) { k.IdleLimit = 1 }},
		{"profile", func(k *KernelSpec) { k.Profile = "gpu" }},
		{"", func(k *KernelSpec) { k.MaxWarm = 2 }},
		{"", func(k *KernelSpec) { k.MaxWarm = 4 }},
		{"", func(k *KernelSpec) { k.MaxWarm, k.CPUs = 8, 0.5 }},
		{"max_warm", func(k *KernelSpec) { k.MaxWarm = 5 }},
		{"max_warm", func(k *KernelSpec) { k.MaxWarm = -1 }},
		{"image", func(k *KernelSpec) { k.Image = "other" }},
	} {
		k := good
		tt.edit(&k)
		var p problems
		site.Kernels = Kernels{Specs: []KernelSpec{k}}
		site.checkKernels(&p)
		switch {
		case tt.field == "" && len(p) > 0:
			t.Errorf("a good one is refused: %v", p)
		case tt.field != "" && (len(p) != 1 || !strings.Contains(p[0].Error(), "kernels.specs[0]."+tt.field)):
			t.Errorf("%s: %v", tt.field, p)
		}
	}
	var p problems
	twin := good
	twin.Name = strings.ToUpper(good.Name)
	Config{Profiles: profiles, Kernels: Kernels{MaxPerUser: -1, MaxWarmLoad: -1, Specs: []KernelSpec{good, twin}}}.checkKernels(&p)
	if len(p) != 3 {
		t.Errorf("two that Jupyter takes for one, and two limits below zero: %v", p)
	}
	all := good
	all.Stacks = []string{AllStacks}
	p = nil
	Config{Profiles: profiles, Kernels: Kernels{Specs: []KernelSpec{all}}}.checkKernels(&p)
	if len(p) != 1 || !strings.Contains(p[0].Error(), "kernels.specs[0].stacks") {
		t.Errorf("all stacks of a site that has none: %v", p)
	}
	own := good
	own.Name, own.Environments = "py", EnvironmentsOwn
	clash := good
	clash.Name = "Py.ana"
	p = nil
	Config{Profiles: profiles, Kernels: Kernels{Specs: []KernelSpec{clash, own}}}.checkKernels(&p)
	if len(p) != 1 || !strings.Contains(p[0].Error(), "kernels.specs[0].name") {
		t.Errorf("a name that may be one of several: %v", p)
	}
}
