// Package jobs does what users ask for of their batch jobs: submission, arrays, dry runs, resubmission, tries by hand,
// holding and releasing, and the input files.
//
// Promises: what can never run is refused with the reason before anything of it is saved, jobs that are asked for
// together are saved all or none, and a request that is repeated has the jobs of the first time. The records are the
// engine's, which alone starts and ends what runs; this package must not start anything, nor keep a record of its own.
package jobs

import (
	"context"
	"fmt"

	"slipway/spawner"
	"slipway/spawner/engine"
)

// Config is what Jobs needs.
type Config struct {
	// Account returns the account of a hub's user, making it at the first time.
	Account func(ctx context.Context, hub string, user spawner.User) (spawner.Account, error)
	// Environment finds an environment by digest, name or tag among those that a hub's user may use, and gives its
	// digest. Nil: there are none.
	Environment func(ctx context.Context, hub string, user spawner.User, ref string) (digest string, err error)
	// Backend is that of jobs whose submitter names none.
	Backend string
	// Admits says whether a job for AnyBackend may have so much on a backend. What a job may that names its backend is
	// for whoever makes the request to know. Nil: it always may.
	Admits func(backend string, r spawner.Resources) bool
}

// Jobs does what users ask for of their jobs. Its methods are safe for concurrent use.
type Jobs struct {
	cfg    Config
	engine *engine.Manager
}

// New makes Jobs of the engine that has their records.
func New(e *engine.Manager, cfg Config) (*Jobs, error) {
	if name := cfg.Backend; name != "" && e.Configured(name) == nil {
		return nil, fmt.Errorf("no backend is called %q", name)
	}
	return &Jobs{cfg: cfg, engine: e}, nil
}
