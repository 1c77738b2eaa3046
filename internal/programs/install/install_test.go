//go:build linux

package install

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/homes"
	"slipway/internal/programs"
	"slipway/spawner/local"
)

// A program for jobs of other sources is not started: this one is, and the log says what to do.
func TestFindJobProgram(t *testing.T) {
	identity, err := local.Identity(homes.Sources())
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "slipway")
	lean := filepath.Join(filepath.Dir(self), programs.ForJobs)
	for name, test := range map[string]struct {
		script string
		same   bool
	}{
		"the same": {"echo " + identity, true}, "another": {"echo 0123456789abcdef", false},
		"of before versions": {"echo it is started by slipway >&2; exit 1", false},
	} {
		if err := os.WriteFile(lean, []byte("#!/bin/sh\n"+test.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := programs.SameBuild(lean); (err == nil) != test.same {
			t.Errorf("%s: %v", name, err)
		}
		var log strings.Builder
		program := FindJobProgram(self, slog.New(slog.NewTextHandler(&log, nil)))
		told := strings.Contains(log.String(), "build both from the same sources")
		if test.same && (program != lean || told) || !test.same && (program != self || !told) {
			t.Errorf("%s: %s, log %s", name, program, &log)
		}
	}
}

// Agents run the build for workloads. Where it is missing they have the host's, and the log says what that means.
func TestInstallSelfTest(t *testing.T) {
	for name, test := range map[string]struct{ inside, want, says string }{
		"both":     {"echo inside", "echo inside", ""},
		"the host": {"", "echo host", "slipway-gpu-inside"},
	} {
		dir, bin := t.TempDir(), filepath.Join(t.TempDir(), "bin")
		helper := filepath.Join(dir, programs.GPUHelper)
		inside := filepath.Join(dir, programs.GPUHelperInside)
		for path, line := range map[string]string{helper: "echo host", inside: test.inside} {
			if line == "" {
				continue
			}
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // a service starts more than once
			var log strings.Builder
			if err := SelfTest(helper, bin, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(bin, programs.GPUHelper))
			warned := strings.Contains(log.String(), "older than this host")
			if err != nil || !strings.Contains(string(text), test.want) || warned != (test.says != "") ||
				!strings.Contains(log.String(), test.says) {
				t.Errorf("%s: %s, %v, log %s", name, text, err, &log)
			}
		}
		if all, err := os.ReadDir(bin); err != nil || len(all) != 1 {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
}
