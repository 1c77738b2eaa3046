// Package launch makes what a start of a workload needs: its directories, home, storage, image and slice of a GPU, and
// the app that its agent is to run.
//
// Promises: repeating it is harmless, and what is made for one start lasts until the workload is removed. What cannot be
// had is an error of the start, or is told to its owner. It must not change a record, nor start anything.
package launch

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// Storage shows workloads of this host their users' storage as directories.
type Storage interface {
	// Open returns the directory that a workload is to see as /storage, and mounts into it what its user has. The start
	// of a session does not wait for that, that of a job for a while: nobody is there to try again. What is amiss it
	// tells. Opening twice is harmless.
	Open(w spawner.Workload, tell func(message string)) (dir string, err error)
	// Close unmounts what a workload had that was seen gone. Closing twice is harmless.
	Close(id spawner.ID)
	// Forget removes the directory too.
	Forget(id spawner.ID) error
}

// Config is what a site has for starts. All fields without a stated default are required.
type Config struct {
	// Image returns the image file of an environment for a job that was accepted with it, once its bytes are known to
	// be what the digest says.
	Image func(ctx context.Context, digest string) (path string, err error)
	// Thaw returns what a session starts from that was accepted with an environment. Nil: sessions start from their
	// images alone.
	Thaw func(ctx context.Context, digest string) (spawner.Thaw, error)
	// Stacks returns the kernels that a JupyterLab session offers beside its image's, or the one that a kernel is. It
	// does not wait. Nil: there are none.
	Stacks func(w spawner.Workload) []control.Stack
	// Gateway says that there are kernels on slices, which sessions are to offer beside their own.
	Gateway bool
	// Uplink returns what the agent of a workload needs to reach the service from another host. w.Spec.Environment is
	// what it runs, as in Launch. Required where a backend is a Remote.
	Uplink func(ctx context.Context, w spawner.Workload) (*control.Uplink, error)
	// Env is what every program finds in its environment unless its start names it otherwise.
	Env map[string]string
	// Storage shows workloads of this host their users' storage. Nil: they see none.
	Storage Storage
	// HomeMounts finds the home and the areas that a workload has of this host, or says why it cannot start without
	// one. What it cannot have otherwise is told. Nil: the account's HomeDir is there, and there are no areas.
	HomeMounts func(
		ctx context.Context, w spawner.Workload, a spawner.Account, tell func(message string),
	) (HomeMounts, error)
	SelfTest time.Duration // how long a test of a slice may take before the app starts. Zero: none is made
	AgentDir string        // holds the agent's program
}

// Maker makes launches and apps.
type Maker struct {
	Config
	GPUs  GPUs                        // nil: this host has none
	Grace time.Duration               // between asking an app to end and killing it
	Title func(backend string) string // names a backend to people
}

// Prepare makes what a launch needs, whose workload, account and directories are known, and notes it there.
func (m *Maker) Prepare(ctx context.Context, l *spawner.Launch) error {
	w := l.Workload
	l.AgentDir = m.AgentDir
	if err := m.homeMounts(ctx, l); err != nil {
		return err
	}
	if l.Remote {
		return m.prepareRemote(ctx, w, l) // areas are directories of this host: nothing there names them
	}
	return m.prepareLocal(ctx, l)
}

// prepareLocal makes what a workload of this host needs.
func (m *Maker) prepareLocal(ctx context.Context, l *spawner.Launch) (err error) {
	environment := l.Spec.Environment
	if l.Kind.Batch() {
		if l.SIF, err = m.Image(ctx, environment); err != nil {
			return err
		}
	} else if environment != "" && m.Thaw != nil {
		l.Thaw = func(ctx context.Context) (spawner.Thaw, error) { return m.Thaw(ctx, environment) }
	}
	if err := makeDirs(l); err != nil {
		return err
	}
	if m.Storage != nil {
		if l.Storage, err = m.Storage.Open(l.Workload, func(message string) { l.Report(message, 0) }); err != nil {
			return err
		}
	}
	if l.Slice != nil {
		l.GPU, err = m.realise(ctx, l)
	}
	return err
}

// prepareRemote makes what a workload of a Remote needs.
func (m *Maker) prepareRemote(ctx context.Context, w spawner.Workload, l *spawner.Launch) (err error) {
	if l.Kind.Session() && m.Storage != nil {
		l.Report("Storage is no directory on "+m.Title(l.Backend)+": `slipway data url` gives URLs to read it by", 0)
	}
	l.Workload = WithEnvironment(w)
	if l.SIF, err = m.Image(ctx, l.Spec.Environment); err != nil {
		return err
	}
	if l.Uplink, err = m.Uplink(ctx, l.Workload); err != nil {
		return err
	}
	if l.Kind.Batch() {
		app := m.App(w, l.Account, nil)
		l.App = &app
	}
	return makeDirs(l)
}

// WithEnvironment returns a workload as those on other hosts have it: with the environment that it runs in.
func WithEnvironment(w spawner.Workload) spawner.Workload {
	w.Spec.Environment = cmp.Or(w.From, w.Spec.Environment)
	return w
}

// makeDirs makes a workload's directories. They are root's, searchable but not listable; run/ is the user's.
func makeDirs(l *spawner.Launch) error {
	run := filepath.Join(l.Dir, "run")
	for _, dir := range []string{filepath.Join(l.Dir, "link"), run} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("make the workload's directory: %w", err)
		}
	}
	if err := os.Chmod(run, 0o700); err != nil {
		return err
	}
	return os.Chown(run, l.Account.UID, l.Account.GID)
}
