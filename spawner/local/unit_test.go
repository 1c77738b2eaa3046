package local

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/local/cgroup"
)

func samplePlan() plan {
	return plan{
		Agent: control.Program,
		ID:    "j-0123456789abcdef", Launch: "l", Apptainer: "/usr/local/bin/apptainer",
		Account: spawner.Account{UID: 20001, GID: 100, Login: "u20001", HomeDir: "/srv/homes/x, y:z", Home: "/home/alice"},
		Image:   "/srv/a:b,c.sif", AgentDir: "/srv/agent", LinkDir: "/srv/link", RunDir: "/srv/run", Scratch: "/srv/scratch",
		Env:       map[string]string{"B": "x,y=\"z\"\n", "A": "$(id)", "HOME": "/home/alice"},
		Resources: spawner.Resources{CPUs: 1.5, Memory: 1 << 30, Pids: 64},
	}
}

// TestCommandLine compares with testdata/command.json what Apptainer is started with; write it anew with
// UPDATE_GOLDEN=1.
func TestCommandLine(t *testing.T) {
	commandLine(t, samplePlan(), "command.json")
	p := samplePlan()
	p.GPU = &gpu.Binding{
		Devices: []gpu.DeviceNode{{Path: "/dev/nvidia3", Host: "/driver/dev/nvidia3"}, {Path: "/dev/nvidia-caps/nvidia-cap12"}},
		Mounts: []gpu.Mount{
			{Source: "/usr/lib64/libcuda.so.580.1", Target: "/run/slipway/gpu/lib/libcuda.so.1"}, {Source: "/run/mps", Target: "/run/mps"},
			{Source: "/run/mps-shm", Target: "/dev/shm", Write: true},
		},
		Env: map[string]string{"CUDA_VISIBLE_DEVICES": "MIG-1"},
	}
	commandLine(t, p, "command-gpu.json")
}

func commandLine(t *testing.T, p plan, name string) {
	t.Helper()
	got, err := json.MarshalIndent(map[string][]string{"argv": p.argv(), "env": p.environ()}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
		t.Errorf("command line (-want +got):\n%s", diff)
	}
}

func TestCheckRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*plan)
		want   string // part of the error; empty: accepted
	}{
		"as it is":         {func(*plan) {}, ""},
		"root":             {func(p *plan) { p.Account.UID = 0 }, "uid 0"},
		"root's group":     {func(p *plan) { p.Account.GID = 0 }, "gid 0"},
		"login":            {func(p *plan) { p.Account.Login = "a:b" }, "login"},
		"relative home":    {func(p *plan) { p.Account.Home = "home" }, "home"},
		"home with dots":   {func(p *plan) { p.Account.Home = "/home/../etc" }, "home"},
		"home with colon":  {func(p *plan) { p.Account.Home = "/home/a:b" }, "home"},
		"home with comma":  {func(p *plan) { p.Account.Home = "/home/a,b" }, "home"},
		"negative memory":  {func(p *plan) { p.Resources.Memory = -1 }, "negative"},
		"another HOME":     {func(p *plan) { p.Env["HOME"] = "/root" }, "HOME"},
		"name with dash":   {func(p *plan) { p.Env["a-b"] = "" }, "a-b"},
		"empty name":       {func(p *plan) { p.Env[""] = "" }, "env"},
		"name with equals": {func(p *plan) { p.Env["a=b"] = "" }, "a=b"},
		"Apptainer's":      {func(p *plan) { p.Env["APPTAINER_BIND"] = "/" }, "APPTAINER_BIND"},
		"Singularity's":    {func(p *plan) { p.Env["SINGULARITYENV_X"] = "/" }, "SINGULARITYENV_X"},
		"the id":           {func(p *plan) { p.Env["SLIPWAY_ID"] = "s-1" }, "SLIPWAY_ID"},
		"the shell's":      {func(p *plan) { p.Env["PS1"] = "" }, "PS1"},
		"which GPU":        {func(p *plan) { p.Env["CUDA_VISIBLE_DEVICES"] = "0" }, "CUDA_VISIBLE_DEVICES"},
		"zero byte":        {func(p *plan) { p.Env["X"] = "a\x00b" }, "zero bytes"},
		"too long":         {func(p *plan) { p.Env["X"] = strings.Repeat("x", 128<<10) }, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			p := samplePlan()
			tc.change(&p)
			err := p.check()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("check() = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestObservation(t *testing.T) {
	const mem = 512 << 20
	for name, tc := range map[string]struct {
		exit           exit
		code           int
		reason, remedy string
	}{
		"plain":       {exit{Code: 3}, 3, "", ""},
		"memory":      {exit{Code: 137, Signal: 9, Memory: mem, Usage: cgroup.Usage{OOMKills: 1, MemoryPeak: mem}}, 137, "out of memory (limit 512 MiB, peak 512 MiB)", "ask for more memory: --mem"},
		"memory only": {exit{Code: 0, Memory: 3 << 29, Usage: cgroup.Usage{OOMKills: 2}}, 0, "out of memory (limit 1.5 GiB)", "ask for more memory: --mem"},
		"time":        {exit{Code: 143, Limit: 2 * time.Second}, 143, "time limit of 2s reached", "ask for more time: --time"},
		"signal":      {exit{Code: 139, Signal: 11}, 139, "ended by signal 11 (segmentation fault)", ""},
		"threads": {exit{Code: 139, Signal: 11, Pids: 80}, 139, "ended by signal 11 (segmentation fault); it had reached its limit of 80 processes and threads",
			"start fewer processes and threads at a time (fewer workers, OMP_NUM_THREADS=1)"},
		"threads, exit": {exit{Code: 1, Pids: 80}, 1, "it had reached its limit of 80 processes and threads", "start fewer processes and threads at a time (fewer workers, OMP_NUM_THREADS=1)"},
		"threads, done": {exit{Pids: 80}, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := spawner.Observation{Existence: spawner.Exited, ExitCode: tc.code, Reason: tc.reason, Remedy: tc.remedy, Memory: tc.exit.Usage.MemoryPeak}
			if diff := cmp.Diff(want, tc.exit.observation()); diff != "" {
				t.Errorf("observation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHost(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		mode  os.FileMode
		want  string
	}{
		"good":          {map[string]string{"dev/fuse": "", "proc/sys/user/max_user_namespaces": "1000\n"}, 0o666, ""},
		"no fuse":       {nil, 0, "modprobe fuse"},
		"fuse is roots": {map[string]string{"dev/fuse": ""}, 0o600, "chmod 666 /dev/fuse"},
		"no namespaces": {map[string]string{"dev/fuse": "", "proc/sys/user/max_user_namespaces": "0\n"}, 0o666, "user.max_user_namespaces"},
		"AppArmor": {map[string]string{"dev/fuse": "", "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, 0o666,
			"kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range tc.files {
				file := filepath.Join(root, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.mode != 0 {
				if err := os.Chmod(filepath.Join(root, "dev/fuse"), tc.mode); err != nil {
					t.Fatal(err)
				}
			}
			err := host{root: root}.check()
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || !errs.Is(err, errs.Missing)) {
				t.Errorf("check() = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestLock(t *testing.T) {
	d := dir(t.TempDir())
	held := func(want bool) {
		t.Helper()
		if got, err := d.held(); err != nil || got != want {
			t.Errorf("held() = %v, %v, want %v", got, err, want)
		}
	}
	held(false)
	f, ok, err := d.lock()
	if err != nil || !ok {
		t.Fatalf("lock() = %v, %v", ok, err)
	}
	held(true)
	if _, ok, err := d.lock(); err != nil || ok {
		t.Errorf("a second lock() = %v, %v", ok, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	held(false)
}

func TestKeepFirst(t *testing.T) {
	got := keepFirst(strings.NewReader(strings.Repeat("x", 1<<20)), 32<<10)
	if len(got) != 32<<10 {
		t.Errorf("kept %d bytes", len(got))
	}
}

func FuzzExit(f *testing.F) {
	f.Add([]byte(`{"code":3,"usage":{"oom_kills":1}}`))
	f.Add([]byte(`{"limit":1,"ended":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := parseExit(data)
		if err == nil && e.observation().Existence != spawner.Exited {
			t.Errorf("%q is no end", data)
		}
	})
}

func TestTheFirstOfAContainer(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tx\nNSpid:\t4711\t1\nThreads:\t1\n": true, "NSpid:\t4711\n": false, "NSpid:\t4711\t7\n": false, "NSpid:\t4711\t7\t1\n": false, "Name:\tNSpid\n": false,
	} {
		if got := isFirst(status); got != want {
			t.Errorf("isFirst(%q) = %t", status, got)
		}
	}
}
