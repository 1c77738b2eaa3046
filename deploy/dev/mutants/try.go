package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// verdict is what the tests said to a mutant.
type verdict int

const (
	lived   verdict = iota
	noticed         // a test failed, or went on for ever
	broken          // it does not compile
)

const (
	atOnce   = 2 // trials; most tests wait for half of their time
	patience = 10
)

// trials runs the package's own tests on each of its mutants.
func trials(ctx context.Context, p plan, all []mutant) ([]verdict, error) {
	began := time.Now()
	if out, err := test(ctx, p.dir, 0); err != nil {
		return nil, fmt.Errorf("the tests fail as they are: %w\n%s", err, out)
	}
	limit := patience*time.Since(began) + time.Minute
	said := make([]verdict, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, m := range all {
		group.Go(func() (err error) {
			said[i], err = m.try(ctx, p.dir, limit)
			return err
		})
	}
	return said, group.Wait()
}

func (m mutant) try(ctx context.Context, dir string, limit time.Duration) (verdict, error) {
	temp, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temp)
	path, err := filepath.Abs(m.path)
	if err != nil {
		return 0, err
	}
	changed, overlay := filepath.Join(temp, "changed.go"), filepath.Join(temp, "overlay.json")
	index, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return 0, err
	}
	if err := errors.Join(os.WriteFile(changed, m.source, 0o600), os.WriteFile(overlay, index, 0o600)); err != nil {
		return 0, err
	}
	out, err := test(ctx, dir, limit, "-overlay", overlay)
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err == nil:
		return lived, nil
	case strings.Contains(out, "[build failed]"):
		return broken, nil
	}
	return noticed, nil
}

// test runs a package's tests until one fails. A limit of 0 is go test's own.
func test(ctx context.Context, dir string, limit time.Duration, args ...string) (string, error) {
	args = append([]string{"test", "-vet=off", "-failfast", "-count=1"}, args...)
	if limit > 0 {
		args = append(args, "-timeout", limit.String())
	}
	c := exec.CommandContext(ctx, "go", append(args, "./"+dir)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with what the tests start
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Minute
	out, err := c.CombinedOutput()
	return string(out), err
}
