package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

func TestJobsWeighLess(t *testing.T) {
	for file, files := range map[string]map[string]string{
		"slipway/cpu.weight":     {"cgroup.controllers": "cpu memory pids", "slipway/cpu.weight": ""},
		"cpu/slipway/cpu.shares": {"cpu/tasks": "", "cpu/slipway/cpu.shares": ""},
	} {
		tr := fakeTree(t, files)
		if err := tr.Weigh("slipway", 10); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"slipway/cpu.weight": "10", "cpu/slipway/cpu.shares": "102"}
		if got, err := os.ReadFile(filepath.Join(tr.root, file)); err != nil || string(got) != want[file] {
			t.Errorf("%s is %q, %v", file, got, err)
		}
	}
	if err := fakeTree(t, map[string]string{"cgroup.controllers": "cpu"}).Weigh("slipway", 10); err != nil {
		t.Errorf("before the first job: %v", err)
	}
}
