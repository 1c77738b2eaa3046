package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/programs"
)

// helperOnPath puts a helper of one line of shell on PATH, and nothing else.
func helperOnPath(t *testing.T, line string) string {
	t.Helper()
	dir := t.TempDir()
	if line != "" {
		if err := os.WriteFile(filepath.Join(dir, programs.GPUHelper), []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return dir
}

// The helper's output and its exit code are the command's.
func TestGPUsSelftest(t *testing.T) {
	for name, test := range map[string]struct {
		line, args string
		code       int
		out, errs  string
	}{
		"good":            {"echo table", "", 0, "table\n", ""},
		"arguments":       {`echo "$*"`, "--json --brief --timeout 2s --expect {}", 0, "selftest --timeout 2s --expect {} --json --brief\n", ""},
		"failed":          {`echo table; echo "failed: kernel" >&2; exit 1`, "", 1, "table\n", "failed: kernel\n"},
		"nothing to test": {"exit 77", "", 77, "", ""},
		"crashed":         {"kill -SEGV $$", "", 1, "", "segmentation fault"},
		"usage":           {"", "--timeout 0s", 2, "", "more than 0"},
		"too much":        {"", "s-1", 2, "", `"s-1" is too much`},
		"no helper":       {"", "", 1, "", "  -> install it beside the program slipway"},
	} {
		helperOnPath(t, test.line)
		var out, errOut bytes.Buffer
		c := gpusSelftestCommand(Env{Getenv: os.Getenv, Stdout: &out, Stderr: &errOut})
		c.SetArgs(strings.Fields(test.args))
		c.SilenceUsage, c.SilenceErrors = true, true
		if code := report(&errOut, c.ExecuteContext(t.Context())); code != test.code || test.out != "" && out.String() != test.out || !strings.Contains(errOut.String(), test.errs) {
			t.Errorf("%s: code %d, %q, %q", name, code, out.String(), errOut.String())
		}
	}
}

func TestFindGPUHelper(t *testing.T) {
	path := helperOnPath(t, "true")
	beside := t.TempDir()
	if got, err := findGPUHelper(beside, ""); err != nil || got != filepath.Join(path, programs.GPUHelper) {
		t.Errorf("on PATH: %q, %v", got, err)
	}
	p := filepath.Join(beside, programs.GPUHelper)
	if err := os.WriteFile(p, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := findGPUHelper("", beside); err != nil || got == p {
		t.Errorf("what may not be executed: %q, %v", got, err)
	}
	if err := os.Chmod(p, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := findGPUHelper("", beside); err != nil || got != p {
		t.Errorf("beside the program: %q, %v", got, err)
	}
	t.Setenv("PATH", "")
	_, err := findGPUHelper(t.TempDir())
	if e, ok := errors.AsType[*errs.Error](err); !ok || e.Kind != errs.Missing || e.Remedy == "" {
		t.Errorf("nowhere: %v", err)
	}
}
