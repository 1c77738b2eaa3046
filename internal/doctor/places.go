package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"

	"slipway/images/replication"
	"slipway/internal/config"
	"slipway/internal/environments"
	"slipway/internal/errs"
)

// placeChecks try the places of environments beside the library. What they write they take away again.
func placeChecks(c config.Environments) []check {
	var out []check
	for _, s := range c.Stores {
		out = append(out, check{"store " + s.Name, true, func(ctx context.Context) error {
			return inTime(ctx, func() error { return tryStore(ctx, s) })
		}})
	}
	for _, e := range c.Exports {
		out = append(out, check{"export " + e.Name, true, func(ctx context.Context) error {
			return inTime(ctx, func() error { return tryExport(e) })
		}})
	}
	return out
}

// inTime gives up waiting when ctx ends: a call on a file system whose server is away does not come back. The doctor
// ends soon after.
func inTime(ctx context.Context, try func() error) error {
	done := make(chan error, 1)
	go func() { done <- try() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errs.New(errs.Unavailable, "it does not answer: %w", context.Cause(ctx)).
			With("look at its server, at the way there, and at firewalls")
	}
}

func tryStore(ctx context.Context, c config.EnvironmentStore) error {
	m, err := environments.OpenStore(c)
	if err != nil {
		return err
	}
	return replication.Probe(ctx, m, []byte("slipway doctor "+rand.Text()))
}

// tryExport writes a file and removes it. Where programs of the site's open the directory for writing, it looks for
// these.
func tryExport(c config.EnvironmentExport) error {
	for _, argv := range [][]string{c.Begin, c.Publish, c.Abort} {
		if len(argv) == 0 {
			continue
		}
		if _, err := exec.LookPath(argv[0]); err != nil {
			return errs.New(errs.Missing, "%w", err).
				With("install it, or correct begin, publish and abort of the export")
		}
	}
	info, err := os.Stat(c.Directory)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", c.Directory)
	}
	if err != nil {
		return errs.New(errs.Unavailable, "%w", err).With("mount " + c.Directory + ", or make it")
	}
	if len(c.Begin) > 0 {
		return nil
	}
	f, err := os.CreateTemp(c.Directory, ".slipway-doctor-*")
	if err != nil {
		return errs.New(errs.Unavailable, "it cannot be written to: %w", err).With("let root write to " + c.Directory)
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Remove(f.Name())
}
