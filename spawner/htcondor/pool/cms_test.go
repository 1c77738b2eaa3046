package pool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/spawner/htcondor/classad"
)

// cmsCases are what people ask for of a GPU at places where CMS's matchmaking decides.
var cmsCases = []string{
	"none", "any", "any,can-use", "any,optional", "any,count=2", "any,capability>=8.0", "any,capability<=9.0", "any,capability>=7.5,capability<=8.0,memory>=8000M,runtime>=11.2",
	"any,capability>=7.5,capability<=8.0,memory>=8000M,runtime>=11.2,can-use", "any,capability>=9.0,capability<=10.0", "any,capability>=11.0,capability<=11.0",
	"any,runtime>=12.2", "any,driver>=550", "whole,capability>=8.0,capability<=9.0",
}

// TestCMSTable holds what a request becomes in a submit description to testdata/cms.golden.
func TestCMSTable(t *testing.T) {
	var b strings.Builder
	for _, text := range cmsCases {
		fmt.Fprintf(&b, "# %s\n", text)
		lines, err := GPULines(asked(t, text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, l := range lines {
			fmt.Fprintf(&b, "%s = %s\n", l.Name, l.Value)
		}
		b.WriteString("\n")
	}
	name := filepath.Join("testdata", "cms.golden")
	if os.Getenv("UPDATE") != "" {
		noError(t, os.WriteFile(name, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(name)
	noError(t, err)
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got; UPDATE=1 writes it):\n%s", name, diff)
	}
}

// TestAsWMCoreWritesIt compares with what SimpleCondorPlugin.py of wmagent 2.4.5.9 writes for the same.
func TestAsWMCoreWritesIt(t *testing.T) {
	needs := map[string]string{
		"My.DESIRED_GPUMemoryMB": "8000", "My.DESIRED_GPUMinimumCapability": "7.5", "My.DESIRED_GPUMaximumCapability": "8.0", "My.DESIRED_GPURuntime": "11.2",
		"gpus_minimum_memory": "8000", "gpus_minimum_capability": "7.5", "gpus_maximum_capability": "8.0", "gpus_minimum_runtime": "11.2",
	}
	const text = "any,capability>=7.5,capability<=8.0,memory>=8000M,runtime>=11.2"
	for _, tc := range []struct {
		text  string // its requiresGPU
		count string
		needs map[string]string
	}{{"none", "0", nil}, {text, "1", needs}, {text + ",can-use", "0", needs}} { // forbidden, required, optional
		lines, err := GPULines(asked(t, tc.text))
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[string]string{"My.RequiresGPU": tc.count, "request_gpus": tc.count}, map[string]string{}
		for name, value := range tc.needs {
			want[name] = value
		}
		for _, l := range lines {
			switch l.Name {
			case "require_gpus", "My.GPUMemoryMB", "My.CUDACapability", "My.CUDARuntime": // beside it: Slipway's own, and what CMS had before
			default:
				got[l.Name] = l.Value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", tc.text, diff)
		}
	}
}

// TestSlotsCompareWithNumbers evaluates what a pilot's START expression says of a job's attributes.
func TestSlotsCompareWithNumbers(t *testing.T) {
	lines, err := GPULines(asked(t, "any,capability>=8.0,capability<=9.0,runtime>=12.2"))
	if err != nil {
		t.Fatal(err)
	}
	job := classad.New()
	for _, l := range lines {
		if name, mine := strings.CutPrefix(l.Name, "My."); mine {
			job.SetExpr(name, l.Value)
		}
	}
	for capability, want := range map[string]bool{"7.5": false, "8.0": true, "8.6": true, "9.0": true, "10.0": false} {
		e, err := classad.Parse(capability + " >= TARGET.DESIRED_GPUMinimumCapability && " + capability + " <= TARGET.DESIRED_GPUMaximumCapability && 12.4 >= TARGET.DESIRED_GPURuntime")
		if err != nil {
			t.Fatal(err)
		}
		if got := classad.Evaluate(e, classad.New(), job); got != want {
			t.Errorf("capability %s: %v, want %v", capability, got, want)
		}
	}
}
