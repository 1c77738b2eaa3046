package diagnosis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/spawner"
)

func TestDiagnose(t *testing.T) {
	w := spawner.Workload{Kind: spawner.Job, Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 1, Memory: 2 << 30}}}
	exit := func(code int) spawner.Outcome {
		return spawner.Outcome{Failed: code != 0, ExitCode: code, Signal: SignalOf(code), Cause: spawner.CauseExit, Reason: "the job ended with exit code 1"}
	}
	told := func(reason string) spawner.Outcome {
		return spawner.Outcome{Failed: true, ExitCode: 1, Cause: spawner.CauseExit, Reason: reason, Remedy: "as told"}
	}
	for name, tt := range map[string]struct {
		o              spawner.Outcome
		file           string // whose text the payload has printed; empty: nothing
		cause          spawner.Cause
		reason, remedy string // parts
	}{
		"exit":              {exit(3), "", spawner.CauseExit, "exit code", ""},
		"a signal":          {exit(139), "", spawner.CauseSignal, "", ""},
		"a module":          {exit(1), "module.txt", spawner.CauseModule, "no module uproot (ModuleNotFoundError: No module named 'uproot')", "run %pip install uproot in your session"},
		"a part of one":     {exit(1), "module-sub.txt", spawner.CauseModule, "no module numpy", "install numpy"},
		"memory":            {exit(1), "memory.txt", spawner.CauseMemory, "no more memory", "needed at least 2 GiB: retry it with 3 GiB, or submit it with --mem 3G"},
		"killed for memory": {told("out of memory (limit 2.0 GiB, peak 2.0 GiB)"), "", spawner.CauseMemory, "limit 2.0 GiB", "--mem 3G"},
		"a disk":            {exit(1), "disk.txt", spawner.CauseDisk, "disk was full", "free some space"},
		"torch":             {exit(1), "gpu-torch.txt", spawner.CauseGPUMemory, "slice of a GPU", "larger slice"},
		"jax":               {exit(1), "gpu-jax.txt", spawner.CauseGPUMemory, "slice of a GPU", "larger slice"},
		"time":              {told("time limit of 1h0m0s reached"), "module.txt", spawner.CauseTime, "1h0m0s", "as told"},
		"a remote disk":     {told("out of disk on its machine"), "", spawner.CauseDisk, "", "as told"},
		"no container":      {told("its container could not be made: no space"), "", spawner.CauseStart, "", "as told"},
		"said long before":  {exit(1), "handled.txt", spawner.CauseExit, "ValueError: math domain error", ""},
		"memory, caught":    {exit(1), "caught-memory.txt", spawner.CauseExit, "ValueError: no minimum found", ""},
		"a module, caught":  {exit(1), "caught-module.txt", spawner.CauseExit, "KeyError: 'mass'", ""},
		"no traceback":      {exit(1), "bare.txt", spawner.CauseExit, "SyntaxError: '(' was never closed", ""},
		"a port":            {exit(1), "port.txt", spawner.CauseExit, "exit code 1", ""},
		"an array":          {exit(1), "numpy.txt", spawner.CauseMemory, "no more memory", "retry it with"},
		"what led to it":    {exit(1), "chain.txt", spawner.CauseModule, "no module cupy", "install cupy"},
		"another process's": {exit(1), "ranks.txt", spawner.CauseGPUMemory, "slice of a GPU", "larger slice"},
		"of many lines":     {exit(1), "lines.txt", spawner.CauseGPUMemory, "slice of a GPU", "larger slice"},
		"it is done":        {spawner.Outcome{}, "module.txt", "", "", ""},
		"output":            {spawner.Outcome{Failed: true, ExitCode: 1, Cause: spawner.CauseOutput, Reason: "x"}, "module.txt", spawner.CauseOutput, "x", ""},
	} {
		if tt.file != "" {
			text, err := os.ReadFile(filepath.Join("testdata", "ends", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			tt.o.Tail = strings.TrimSpace(string(text))
		}
		got := Of(tt.o, w)
		if got.Cause != tt.cause || !strings.Contains(got.Reason, tt.reason) || !strings.Contains(got.Remedy, tt.remedy) {
			t.Errorf("%s: %s: %q, %q", name, got.Cause, got.Reason, got.Remedy)
		}
	}
}

func FuzzDiagnose(f *testing.F) {
	f.Add("ModuleNotFoundError: No module named 'a", "")
	f.Add("ImportError: No module named \"", "out of memory")
	f.Add("[0]: Traceback (most recent call last):\n[0]:  x\n[0]: A\nDuring handling of the above exception\nTraceback (most recent call last):\nB", "")
	f.Fuzz(func(_ *testing.T, tail, reason string) {
		Of(spawner.Outcome{Failed: true, ExitCode: 1, Cause: spawner.CauseExit, Tail: tail, Reason: reason}, spawner.Workload{})
	})
}

// TestAFileThatIsNotThere: a program of a notebook expects the files that lie beside it.
func TestAFileThatIsNotThere(t *testing.T) {
	for path, want := range map[string]struct {
		remote bool
		remedy string
	}{
		"'data.txt'":        {false, "begins in an empty directory"},
		"'/home/a/no.txt'":  {false, ""},
		"'/home/a/far.txt'": {true, "may not have your home"},
	} {
		tail := "Traceback (most recent call last):\n  File \"cell\", line 1\nFileNotFoundError: [Errno 2] No such file or directory: " + path
		w := spawner.Workload{Kind: spawner.Job}
		w.Remote = want.remote
		o := Of(spawner.Outcome{Failed: true, Cause: spawner.CauseExit, ExitCode: 1, Tail: tail}, w)
		if !strings.Contains(o.Remedy, want.remedy) || (want.remedy == "") != (o.Remedy == "") || !strings.Contains(o.Reason, path) {
			t.Errorf("%s: %q -> %q", path, o.Reason, o.Remedy)
		}
	}
}
