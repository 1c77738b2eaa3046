package engine

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/launch"
)

// Config is what a Manager needs. All fields without a stated default are required.
type Config struct {
	Store Store
	// Full says that the store's disk is full: then nothing new is taken, and what little room is left is for the
	// records of what there is already. Nil: it never is.
	Full     func() error
	Backends []spawner.Backend
	Agents   Agents
	Sealer   Sealer
	// Account returns the account of a hub's user, making it at the first time.
	Account func(ctx context.Context, hub string, user spawner.User) (spawner.Account, error)
	Launch  launch.Config // what starts are made of
	// AnnounceStart tells whoever asked for a start with Spec.EventsURL what happens in it, until it has come to its
	// end, good or bad. It is called once a start, and again after a restart of the service. Nil: nobody is told.
	AnnounceStart func(ctx context.Context, w spawner.Workload, secrets control.Env)
	GPUs          GPUs // nil: this host has none
	// Group says with whom a hub's user shares a GPU that is shared without isolation. Nil: with herself alone.
	Group    func(hub string, user spawner.User) string
	Lend     Lend                        // of idle slices of GPUs to jobs
	Dir      string                      // the workloads' own directories
	Capacity map[string]spawner.Capacity // by backend, and of Host; what is not in it is not limited
	Sessions string                      // the backend of sessions
	// SessionsFirst has no new job of this host given what a session waits for, whoever has asked first.
	SessionsFirst bool
	Limits        Limits
	Output        Output
	Interval      time.Duration // between two looks at every active workload. Zero: 15 s
	Workers       Workers
	Logger        *slog.Logger
}

// Output says how much is kept of the output files of jobs.
type Output struct {
	Most int64 // bytes of one job's, in all. Zero: 20 GiB
	// Room returns how many bytes of output a directory's disk may take. Nil: what is free of it, but for a rest.
	Room func(dir string) (int64, error)
}

// Workers are how many workloads are worked on at once.
type Workers struct {
	Local int // Zero: 64
	// Remotes is the same of workloads of Remotes, beside those: a start there waits for others, to be asked for with
	// them. Zero: 1024
	Remotes int
}

// fill puts the defaults in.
func (c *Config) fill() {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	orElse(&c.Limits.Agent, time.Minute)
	orElse(&c.Limits.BootRemote, 20*time.Minute)
	orElse(&c.Limits.Boot, 3*time.Minute)
	orElse(&c.Limits.Pack, 15*time.Minute)
	orElse(&c.Limits.Grace, 10*time.Second)
	orElse(&c.Interval, 15*time.Second)
	c.Workers.Local, c.Workers.Remotes = cmp.Or(c.Workers.Local, 64), cmp.Or(c.Workers.Remotes, 1024)
}
