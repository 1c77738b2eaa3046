package config

import (
	"strings"
	"testing"
	"time"
)

func TestKernels(t *testing.T) {
	profiles := []Profile{{Name: "cpu", Images: []string{"notebook"}}}
	good := KernelSpec{Name: "python", DisplayName: "Python", Profile: "cpu", Argv: []string{"python", "-f", ConnectionFile}, Interrupt: "signal", IdleLimit: Duration(time.Hour)}
	for _, tt := range []struct {
		field string
		edit  func(*KernelSpec)
	}{
		{"", func(*KernelSpec) {}},
		{"name", func(k *KernelSpec) { k.Name = "a/b" }},
		{"display_name", func(k *KernelSpec) { k.DisplayName = "" }},
		{"argv", func(k *KernelSpec) { k.Argv = k.Argv[:2] }},
		{"interrupt_mode", func(k *KernelSpec) { k.Interrupt = "shout" }},
		{"idle_limit", func(k *KernelSpec) { k.IdleLimit = 1 }},
		{"profile", func(k *KernelSpec) { k.Profile = "gpu" }},
		{"image", func(k *KernelSpec) { k.Image = "other" }},
	} {
		k := good
		tt.edit(&k)
		var p problems
		Config{Profiles: profiles, Kernels: Kernels{Specs: []KernelSpec{k}}}.checkKernels(&p)
		switch {
		case tt.field == "" && len(p) > 0:
			t.Errorf("a good one is refused: %v", p)
		case tt.field != "" && (len(p) != 1 || !strings.Contains(p[0].Error(), "kernels.specs[0]."+tt.field)):
			t.Errorf("%s: %v", tt.field, p)
		}
	}
	var p problems
	Config{Profiles: profiles, Kernels: Kernels{PerUser: -1, Specs: []KernelSpec{good, good}}}.checkKernels(&p)
	if len(p) != 2 {
		t.Errorf("two of one name, and a limit below zero: %v", p)
	}
}
