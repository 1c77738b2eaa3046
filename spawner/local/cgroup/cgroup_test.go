package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/spawner"
)

// fakeTree makes a tree with the given files, as the kernel would show them.
func fakeTree(t *testing.T, files map[string]string) Tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return New(root, "slipway/main")
}

func TestUnifiedGroups(t *testing.T) {
	job := "slipway/main/j-1/"
	tr := fakeTree(t, map[string]string{
		"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "", "slipway/cgroup.subtree_control": "",
		"slipway/main/cgroup.subtree_control": "", job + "cgroup.procs": "12\n13\n", job + "memory.max": "", job + "memory.swap.max": "",
		job + "pids.max": "", job + "pids.events": "max 3\n", job + "cpu.max": "", job + "memory.peak": "1048576\n", job + "memory.events": "low 0\noom 2\noom_kill 1\n",
		job + "cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
	})
	g := tr.Group("j-1")
	if err := errors.Join(g.Create(), g.Limit(spawner.Resources{CPUs: 1.5, Memory: 1 << 30, Pids: 64})); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"cgroup.subtree_control": "+cpu +memory +pids", "slipway/cgroup.subtree_control": "+cpu +memory +pids",
		"slipway/main/cgroup.subtree_control": "+cpu +memory +pids", job + "memory.max": "1073741824", job + "memory.swap.max": "0",
		job + "pids.max": "64", job + "cpu.max": "150000 100000",
	} {
		if got, err := os.ReadFile(filepath.Join(tr.root, file)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v, want %q", file, got, err, want)
		}
	}
	if got, want := g.Usage(), (Usage{OOMKills: 1, MemoryPeak: 1 << 20, CPU: 1.5}); got != want {
		t.Errorf("usage = %+v, want %+v", got, want)
	}
	if n := g.Refused(); n != 3 {
		t.Errorf("%d processes were refused, want 3", n)
	}
	if pids, err := g.Pids(); err != nil || !cmp.Equal(pids, []int{12, 13}) {
		t.Errorf("pids = %v, %v", pids, err)
	}
	if names, err := tr.Names(); err != nil || !cmp.Equal(names, []string{"j-1"}) {
		t.Errorf("names = %v, %v", names, err)
	}
}

func TestMissingControllers(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"unified, all":     {map[string]string{"cgroup.controllers": "cpu memory pids"}, ""},
		"unified, no cpu":  {map[string]string{"cgroup.controllers": "memory pids"}, "cpu"},
		"first, all":       {map[string]string{"cpu/tasks": "", "cpuacct/tasks": "", "memory/tasks": "", "pids/tasks": ""}, ""},
		"first, no memory": {map[string]string{"cpu/tasks": "", "cpuacct/tasks": "", "pids/tasks": ""}, "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := fakeTree(t, tc.files)
			if got := strings.Join(tr.Missing(), " "); got != tc.want {
				t.Errorf("missing = %q, want %q", got, tc.want)
			}
			if tc.want != "" && !errs.Is(tr.Group("j-1").Create(), errs.Missing) {
				t.Error("create succeeds without the controllers")
			}
		})
	}
}

func FuzzGroupFiles(f *testing.F) {
	f.Add([]byte("12\n13\n"))
	f.Add([]byte("low 0\noom_kill 7\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if pids, err := parsePids(data); err == nil {
			for _, pid := range pids {
				if pid <= 1 {
					t.Errorf("parsePids(%q) = %v", data, pids)
				}
			}
		}
		if n := keyed(data, "oom_kill"); n < 0 {
			t.Errorf("keyed(%q) = %d", data, n)
		}
	})
}
