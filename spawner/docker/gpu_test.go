package docker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/storage"
	"github.com/moby/moby/api/types/system"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// slice is a binding of every part that one may have.
func slice() *gpu.Binding {
	return &gpu.Binding{
		Name: gpu.Vendor + "=s-abcdefgh12345678",
		Devices: []gpu.DeviceNode{
			{Path: "/dev/nvidia3", Major: 195, Minor: 3}, {Path: "/dev/nvidia-caps/nvidia-cap12", Host: "/drv/dev/nvidia-caps/nvidia-cap12", Major: 508, Minor: 12},
		},
		Mounts: []gpu.Mount{
			{Source: "/usr/lib64/libcuda.so.580.1", Target: control.GPULibDir + "/libcuda.so.1"}, {Source: "/run/slipway/mps/shm", Target: "/dev/shm", Write: true},
		},
		Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": "MIG-1", "SLIPWAY_GPU": "1g.18gb of NVIDIA H200"},
	}
}

// TestGPUGolden holds what each sort of engine is told when a container with a slice is made.
func TestGPUGolden(t *testing.T) {
	b := backend(t, Config{})
	for name, able := range map[string]ability{"devices": {runtime: plainRuntime}, "cdi": {cdi: "/var/run/cdi"}} {
		t.Run(name, func(t *testing.T) {
			p := plan{Launch: sample(), ability: able}
			p.GPU = slice()
			o := b.options(nameOf(p.ID), p)
			got, err := json.MarshalIndent(map[string]any{
				"Env": o.Config.Env, "Label": o.Config.Labels[labelGPU], "Runtime": o.HostConfig.Runtime, "Devices": o.HostConfig.Devices,
				"DeviceRequests": o.HostConfig.DeviceRequests, "Mounts": o.HostConfig.Mounts[5:],
			}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "gpu-"+name+".golden.json")
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Errorf("the container's GPU has changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAbility(t *testing.T) {
	runtimes := func(names ...string) map[string]system.RuntimeWithStatus {
		m := map[string]system.RuntimeWithStatus{}
		for _, name := range names {
			m[name] = system.RuntimeWithStatus{Runtime: system.Runtime{Path: name}}
		}
		return m
	}
	hidden := runtimes("runc")
	hidden["default"] = system.RuntimeWithStatus{Runtime: system.Runtime{Path: "/usr/bin/nvidia-container-runtime"}}
	for name, test := range map[string]struct {
		info system.Info
		want ability
		bad  bool
	}{
		"plain":       {system.Info{DefaultRuntime: "runc", Runtimes: runtimes("runc", "nvidia")}, ability{}, false},
		"cdi":         {system.Info{DefaultRuntime: "runc", CDISpecDirs: []string{"/etc/cdi", "/var/run/cdi"}}, ability{cdi: "/var/run/cdi"}, false},
		"vendor's":    {system.Info{DefaultRuntime: "nvidia", Runtimes: runtimes("runc", "nvidia")}, ability{runtime: "runc"}, false},
		"by path":     {system.Info{DefaultRuntime: "default", Runtimes: hidden}, ability{runtime: "runc"}, false},
		"no other":    {system.Info{DefaultRuntime: "nvidia", Runtimes: runtimes("nvidia")}, ability{}, true},
		"unrelated":   {system.Info{DefaultRuntime: "crun", Runtimes: runtimes("crun", "runc")}, ability{}, false},
		"says naught": {system.Info{}, ability{}, false},
	} {
		if got := abilityOf(test.info); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if err := lacks(test.info); strings.Contains(err.Error(), "gives GPUs to every container") != test.bad {
			t.Errorf("%s: Check says %v", name, err)
		}
	}
}

// TestSuits: which kept containers may be started as they are.
func TestSuits(t *testing.T) {
	able, other := ability{cdi: "/var/run/cdi"}, slice()
	other.Env["CUDA_VISIBLE_DEVICES"] = "MIG-2"
	for name, test := range map[string]struct {
		label, runtime string
		able           ability
		gpu            *gpu.Binding
		want           bool
	}{
		"none to none":        {noGPU, "runc", ability{}, nil, true},
		"none to some":        {noGPU, "runc", ability{}, slice(), false},
		"some to none":        {fingerprint(*slice()), "runc", ability{}, nil, false},
		"the same":            {fingerprint(*slice()), "runc", ability{}, slice(), true},
		"another environment": {fingerprint(*slice()), "runc", ability{}, other, false},
		"none to CDI":         {noGPU, "runc", able, slice(), false},
		"CDI to any":          {viaCDI, "runc", able, other, true},
		"CDI to none":         {viaCDI, "runc", able, nil, true},
		"engine lost CDI":     {viaCDI, "runc", ability{}, nil, false},
		"engine got CDI":      {fingerprint(*slice()), "runc", able, slice(), false},
		"before this":         {"", "runc", ability{}, nil, false},
		"vendor's runtime":    {noGPU, "nvidia", ability{runtime: "runc"}, nil, false},
	} {
		c := container.InspectResponse{Config: &container.Config{Labels: map[string]string{labelGPU: test.label}}, HostConfig: &container.HostConfig{Runtime: test.runtime}}
		p := plan{Launch: sample(), ability: test.able}
		p.GPU = test.gpu
		if got := p.suits(c); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestDescription: what a device stands for follows the launch, and a launch without a slice keeps GPUs away.
func TestDescription(t *testing.T) {
	p := plan{Launch: sample(), ability: ability{cdi: "/x"}}
	none := p.description()
	p.GPU = slice()
	some := p.description()
	if none.Name != some.Name || none.Env[cdiEnv] == some.Env[cdiEnv] || some.Env[cdiEnv] == "" || len(p.GPU.Env) != 3 {
		t.Errorf("without %+v\nwith %+v", none, some)
	}
	if len(none.Devices) > 0 || none.Env["NVIDIA_VISIBLE_DEVICES"] != "void" {
		t.Errorf("without: %+v", none)
	}
}

func TestUsersChooseNoGPU(t *testing.T) {
	b := backend(t, Config{Host: filepath.Join(t.TempDir(), "never.sock")})
	for _, name := range []string{"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES", "SLIPWAY_GPU_EXPECT"} {
		l := sample()
		l.Spec.Env[name] = "all"
		if err := b.Start(t.Context(), l); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("Start with %s = %v", name, err)
		}
	}
}

const (
	idA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	idB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestContainers(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		want  []string
		group string // of idA
	}{
		"v1, cgroupfs": {"12:memory:/docker/" + idA + "\n3:cpu,cpuacct:/docker/" + idA + "\n1:name=systemd:/docker/" + idA + "\n0::/\n", []string{idA}, "docker/" + idA},
		"v1, systemd":  {"4:memory:/system.slice/docker-" + idA + ".scope\n", []string{idA}, "system.slice/docker-" + idA + ".scope"},
		"v2, cgroupfs": {"0::/docker/" + idA + "\n", []string{idA}, "docker/" + idA},
		"v2, systemd":  {"0::/system.slice/docker-" + idA + ".scope/init\n", []string{idA}, "system.slice/docker-" + idA + ".scope"},
		"a parent":     {"0::/gpu.slice/jobs/" + idA + "\n", []string{idA}, "gpu.slice/jobs/" + idA},
		"nested":       {"0::/docker/" + idB + "/docker/" + idA + "/x\n", []string{idB, idA}, "docker/" + idB + "/docker/" + idA},
		"the host":     {"0::/user.slice/user-0.slice/session-1.scope\n", nil, ""},
		"another's":    {"0::/docker/" + idB + "\n", []string{idB}, ""},
		"v1, cpu only": {"3:cpu:/docker/" + idA + "\n", []string{idA}, ""},
		"nothing":      {"\n::\nx", nil, ""},
	} {
		if diff := cmp.Diff(test.want, Containers(test.text)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got := groupOf(test.text, idA); got != test.group {
			t.Errorf("%s: its group is %q, want %q", name, got, test.group)
		}
	}
}

func FuzzContainers(f *testing.F) {
	f.Add("0::/docker/" + idA + "\n")
	f.Add("4:memory:/system.slice/docker-" + idA + ".scope\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, id := range Containers(text) {
			if len(id) != 64 || !strings.Contains(text, id) {
				t.Errorf("%q", id)
			}
		}
		if group := groupOf(text, idA); group != "" && !strings.Contains(group, idA) {
			t.Errorf("group %q", group)
		}
	})
}

// TestHeirs: of two containers of a workload the one with its name counts, and one that has taken another's changes did
// run.
func TestHeirs(t *testing.T) {
	if got := existence(container.StateCreated, map[string]string{labelHeir: "x"}); got != spawner.Exited {
		t.Errorf("an heir is %s", got)
	}
	dir := t.TempDir()
	at := func(name string) container.InspectResponse {
		c := container.InspectResponse{Name: "/" + name, Config: &container.Config{Labels: map[string]string{labelHeir: "old"}}}
		c.ID = name
		c.GraphDriver = &storage.DriverData{Name: storageDriver, Data: map[string]string{"UpperDir": filepath.Join(dir, name, "diff")}}
		return c
	}
	old, heir := at("old"), at("heir")
	if got, err := inherits(old, heir); err == nil {
		t.Errorf("neither is there: %v", got)
	}
	for _, test := range []struct {
		make string
		want bool
	}{{"heir", true}, {"old", false}} {
		if err := os.MkdirAll(filepath.Join(dir, test.make, "diff"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := inherits(old, heir); err != nil || got != test.want {
			t.Errorf("with %s: %v, %v", test.make, got, err)
		}
	}
}
