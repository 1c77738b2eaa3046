//go:build linux

// Package install puts copies of the programs that workloads run where they find them: the agent, what is started for
// each job, and the self-test of GPU slices.
//
// A copy is replaced as a whole, so that what runs keeps its own, and a program that the images could not run is
// refused. The package must not start any of them but to ask what it was built from.
package install

import (
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/programs"
)

// Agent puts a copy of this program where workloads find it as `slipway`. The copy is replaced as a whole, so that
// running workloads keep theirs and a half-written one is never started.
func Agent(self, dir string) error {
	if err := checkStatic(self); err != nil {
		return err
	}
	return install(self, dir, "slipway")
}

// FindJobProgram finds what is started for each job, and to look at its owner's directories. Without a program for that
// alone, of the same build, it is this one.
func FindJobProgram(self string, log *slog.Logger) string {
	lean := filepath.Join(filepath.Dir(self), programs.ForJobs)
	if _, err := os.Stat(lean); errors.Is(err, os.ErrNotExist) {
		log.Warn("jobs of this host start more slowly than they could", "missing", lean,
			"remedy", "install "+programs.ForJobs+" beside slipway: deploy/lib/go.sh builds it")
		return self
	}
	if err := programs.SameBuild(lean); err != nil {
		log.Warn("jobs of this host start more slowly than they could", "error", err)
		return self
	}
	return lean
}

// JobProgram puts a copy of what is started for each job where jobs find it, and returns its name below
// control.BinDir. The copy of slipway itself is there.
func JobProgram(program, dir string) (name string, err error) {
	if filepath.Base(program) != programs.ForJobs {
		return filepath.Base(control.Program), nil
	}
	if err := checkStatic(program); err != nil {
		return "", err
	}
	return programs.ForJobs, install(program, dir, programs.ForJobs)
}

// SelfTest puts the program that tests slices where agents find it as `slipway-gpu`. The host's own build is the second
// choice: an image with an older libc cannot run it.
func SelfTest(helper, dir string, log *slog.Logger) error {
	inside := filepath.Join(filepath.Dir(helper), programs.GPUHelperInside)
	_, err := os.Stat(inside)
	switch {
	case err == nil:
		helper = inside
	case errors.Is(err, os.ErrNotExist):
		log.Warn("slices of GPUs are not tested in images that are older than this host", "missing", inside,
			"remedy", "install "+programs.GPUHelperInside+" beside slipway-gpu: deploy/lib/go.sh builds it")
	default:
		return fmt.Errorf("find the self-test for workloads: %w", err)
	}
	return install(helper, dir, programs.GPUHelper)
}

// install puts a copy of a program into dir under a name.
func install(from, dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("install a program for workloads: %w", err)
	}
	target := filepath.Join(dir, name)
	same, err := equalFiles(from, target)
	if err != nil || same {
		return err
	}
	return copyProgram(from, target)
}

// checkStatic refuses a program that needs a dynamic loader: the images that it is to run in may have another one, or
// none.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errs.New(errs.Missing, "%s is linked dynamically and cannot be the agent in every image", path).
				With("build it with CGO_ENABLED=0")
		}
	}
	return nil
}

func equalFiles(a, b string) (bool, error) {
	x, err := digestOf(a)
	if err != nil {
		return false, err
	}
	y, err := digestOf(b)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return x == y, err
}

func digestOf(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), err
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return fmt.Errorf("install a program for workloads: %w", err)
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close())
	if err != nil {
		return fmt.Errorf("install a program for workloads: %w", err)
	}
	return os.Rename(out.Name(), to)
}
