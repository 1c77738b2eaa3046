package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/gpu/cuda/cudatest"
	"slipway/internal/gpu/driverrpc"
	"slipway/internal/gpu/selftest"
)

// buildAs builds a program of release 1.2.3 by a function of deploy/lib/go.sh, as it is installed.
func buildAs(t *testing.T, function, out string, env ...string) {
	t.Helper()
	build := exec.Command("bash", "-c", `source ../../../deploy/lib/common.sh; source "$DEPLOY/lib/go.sh"; "$1" "$2"`, "bash", function, out)
	build.Env = append(os.Environ(), append(env, "SLIPWAY_VERSION=1.2.3")...)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", function, err, text)
	}
}

// TestInside builds the program for sessions and jobs, with a compiler's flags that are none of its business, and has
// it do there what it can, against fakes of NVIDIA's libraries.
func TestInside(t *testing.T) {
	program := filepath.Join(t.TempDir(), "slipway-gpu-inside")
	buildAs(t, "build_gpu_inside", program, "CGO_LDFLAGS=-Wl,-z,now", "GOFLAGS=-buildvcs=false -buildmode=pie")
	t.Run("it needs no version of a libc", func(t *testing.T) { needsNoVersion(t, program) })
	t.Run("version", func(t *testing.T) {
		var b build
		if out, err := exec.Command(program, "version", "--json").Output(); err != nil || json.Unmarshal(out, &b) != nil || b.Version != "1.2.3" || !b.Inside {
			t.Errorf("%v, %s", err, out)
		}
	})
	t.Run("what it lacks", func(t *testing.T) { lacksNVML(t, program) })
	t.Run("self-test", func(t *testing.T) { testsItself(t, program) })
	t.Run("load", func(t *testing.T) {
		c := exec.Command(program, "load", "--seconds", "0.05")
		c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+cudatest.Build(t))
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), `"kernels"`) {
			t.Errorf("%v, %s", err, out)
		}
	})
}

// needsNoVersion checks that the loader of an old image finds all that it is asked for: names alone, of libraries that
// each glibc has, and none at once, since some exist on other systems only.
func needsNoVersion(t *testing.T, program string) {
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool { return s.Name == "dlopen" }) {
		t.Errorf("it does not import dlopen, so this test does not see what it imports: %v", symbols)
	}
	for _, s := range symbols {
		if s.Version != "" {
			t.Errorf("%s is needed as of %s", s.Name, s.Version)
		}
	}
	if table := f.SectionByType(elf.SHT_GNU_VERNEED); table != nil {
		t.Errorf("it has a table of the versions that it needs, %s", table.Name)
	}
	libraries, err := f.ImportedLibraries()
	if slices.Sort(libraries); err != nil || !slices.Equal(libraries, []string{"libc.so.6", "libdl.so.2", "libpthread.so.0"}) {
		t.Errorf("it needs the libraries %v, %v", libraries, err)
	}
	if why := boundAtStart(t, program); why != "" {
		t.Errorf("it binds all symbols as it starts (%s)", why)
	}
}

// lacksNVML checks that who calls the wrong build is told which is the right one, and so is the service.
func lacksNVML(t *testing.T, program string) {
	for _, command := range []string{"drive", "inventory", "watch"} {
		var stderr bytes.Buffer
		c := exec.Command(program, command)
		c.Stderr = &stderr
		_ = c.Run()
		text := stderr.String()
		if c.ProcessState.ExitCode() != 1 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "CGO_ENABLED=1") {
			t.Errorf("%s exits with %d: %s", command, c.ProcessState.ExitCode(), text)
		}
	}
	service := driverrpc.New(driverrpc.Config{Argv: []string{program, "drive"}, Logger: slog.New(slog.DiscardHandler)})
	_, err := service.Devices(t.Context())
	if e, ok := errors.AsType[*errs.Error](err); !ok || e.Kind != errs.Missing || !strings.Contains(e.Remedy, "beside itself or on PATH") {
		t.Errorf("the service is told %v", err)
	}
	if err := service.Close(); err != nil {
		t.Error(err)
	}
}

// testsItself runs the whole self-test, where there is a GPU and where it has a fault.
func testsItself(t *testing.T, program string) {
	libraries := cudatest.Build(t)
	run := func(env ...string) (r selftest.Report, code int) {
		c := exec.Command(program, "selftest", "--json", "--library-dir", libraries, "--root", t.TempDir())
		c.Env = env
		out, err := c.Output()
		if json.Unmarshal(out, &r) != nil {
			t.Fatalf("%v, %s", err, out)
		}
		return r, c.ProcessState.ExitCode()
	}
	r, code := run()
	if code != selftest.ExitOK || len(r.Devices) != 1 || "GPU-"+r.Devices[0].UUID != cudatest.UUID {
		t.Errorf("it exits with %d: %+v", code, r)
	}
	for _, name := range []string{"NVML", "CUDA driver", "kernel", "copies", "second process"} {
		if !slices.ContainsFunc(r.Checks, func(c selftest.Check) bool { return c.Name == name && c.Result == selftest.OK }) {
			t.Errorf("%s: %+v", name, r.Checks)
		}
	}
	if r, code := run("FAKE_FAULT=result"); code != selftest.ExitFailed || !strings.Contains(r.Fault, "kernel") {
		t.Errorf("with a fault it exits with %d: %+v", code, r)
	}
}

// boundAtStart says which mark of the program has the loader look for all symbols at once; empty for none.
func boundAtStart(t *testing.T, program string) string {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, mark := range []struct {
		tag elf.DynTag
		bit uint64
	}{{elf.DT_FLAGS, uint64(elf.DF_BIND_NOW)}, {elf.DT_FLAGS_1, uint64(elf.DF_1_NOW)}, {elf.DT_BIND_NOW, ^uint64(0)}} {
		values, err := f.DynValue(mark.tag)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if mark.tag == elf.DT_BIND_NOW || v&mark.bit != 0 {
				return mark.tag.String()
			}
		}
	}
	return ""
}
