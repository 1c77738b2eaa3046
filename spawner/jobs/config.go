// Package jobs does what is a job's own: submission, arrays, dry runs, resubmission, tries, holding and releasing, the
// input files, the log and output that are brought here, and how long a job that has ended is kept.
//
// Promises: what can never run is refused with the reason before anything of it is saved, jobs that are asked for
// together are saved all or none, a request that is repeated has the jobs of the first time, and what a job has left is
// here before it is removed where it ran. The records are the engine's, which alone starts and ends what runs; this
// package must not start anything, nor keep a record of a job of its own.
package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

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
	// Allowance says what a hub's user may have of jobs; false: it may be something else, which is not known just now.
	// It asks the engine nothing. Nil: nobody is limited.
	Allowance func(hub string, user spawner.User) (spawner.Allowance, bool)
	// Retention is for how long a job that has ended is kept, with its files. Zero: until its owner removes it.
	Retention time.Duration
	// SliceUse says what a job has made of its slice of a GPU so far. It does not wait. Nil: nothing is measured.
	SliceUse func(w spawner.Workload) *spawner.SliceUse
	Logger   *slog.Logger
}

// Jobs does what is a job's own. Its methods are safe for concurrent use.
type Jobs struct {
	cfg       Config
	log       *slog.Logger
	engine    *engine.Manager
	retention retention
}

// New makes Jobs of the engine that has their records, and has it ask them about jobs.
func New(ctx context.Context, e *engine.Manager, cfg Config) (*Jobs, error) {
	if name := cfg.Backend; name != "" && e.Configured(name) == nil {
		return nil, fmt.Errorf("no backend is called %q", name)
	}
	j := &Jobs{cfg: cfg, log: cfg.Logger, engine: e, retention: retention{born: time.Now()}}
	if err := j.readTombstones(ctx); err != nil {
		return nil, err
	}
	if err := j.readClock(ctx); err != nil {
		return nil, err
	}
	j.relearn()
	tx := e.Begin()
	tx.Sched().Recount(time.Now())
	tx.End()
	e.Register(j.kind(), spawner.Job)
	return j, nil
}
