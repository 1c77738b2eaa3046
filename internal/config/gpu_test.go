package config

import (
	"errors"
	"strings"
	"testing"
)

func TestGPUs(t *testing.T) {
	const profile = "profiles:\n  - {name: a, kind: lab, images: [x], cpus: 1, memory: 1G, default: true, "
	for name, tt := range map[string]struct{ text, want string }{
		"driver":     {"gpu: {driver: cuda}", "gpu.driver"},
		"no models":  {"gpu: {driver: simulated}", "gpu.simulated"},
		"mode":       {"gpu: {devices: [{mode: half}]}", "gpu.devices[0].mode"},
		"layout":     {"gpu: {devices: [{mode: whole, layout: [1g.18gb]}]}", "gpu.devices[0].layout"},
		"adopt":      {"gpu: {devices: [{mode: mig, adopt: true, layout: [1g.18gb]}]}", "gpu.devices[0].adopt"},
		"at once":    {"gpu: {devices: [{mode: mig, max_workloads: 4}]}", "gpu.devices[0].max_workloads"},
		"too strong": {"gpu: {driver: nvml}\n" + profile + "gpu: shared, gpu_isolation: hardware}", "profiles[0].gpu_isolation"},
		"cut":        {"gpu: {devices: [{mode: mig, layout: [whole]}]}", "gpu.devices[0].layout"},
		"match":      {`gpu: {devices: [{mode: mig, match: ""}]}`, "gpu.devices[0].match"},
		"headroom":   {"gpu: {headroom: 2}", "gpu.headroom"},
		"no driver":  {profile + "gpu: whole}", "gpu.driver"},
		"request":    {"gpu: {driver: nvml}\n" + profile + "gpu: half}", "profiles[0].gpu"},
		"tier":       {"gpu: {driver: nvml}\n" + profile + "gpu: whole, gpu_isolation: strong}", "profiles[0].gpu_isolation"},
		"jobs":       {"gpu: {driver: nvml}\njobs: {gpus: [half]}", "jobs.gpu"},
	} {
		c, err := Parse([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var p problems
		if c.checkGPU(&p); len(p) == 0 || !strings.Contains(errors.Join(p...).Error(), tt.want) {
			t.Errorf("%s: %v", name, p)
		}
	}
	c, err := Parse([]byte("gpu: {driver: simulated, simulated: [H200/mig], devices: [{match: H200, mode: mig, layout: [3g.71gb, 1g]}]}\njobs: {gpus: ['*', 1g.18gb]}\n" + profile + "gpu: 'mps:25%/20G', gpu_isolation: process}"))
	if err != nil {
		t.Fatal(err)
	}
	var p problems
	if c.checkGPU(&p); len(p) > 0 {
		t.Error(p)
	}
}
