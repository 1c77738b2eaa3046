// Package kernelpool does what is particular to Jupyter kernels with a slice of their own: it starts them, keeps some
// warm for those who start one again and again, ends those that nobody wants any more, and counts how they fare.
//
// Promises: a warm kernel is its owner's from the beginning and never changes hands, holds a lease as every workload
// does, and ends as soon as it keeps somebody from starting. The records are the engine's; this package must not start
// or end a container itself.
package kernelpool

import (
	"context"
	"log/slog"

	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/sessions"
)

// Config is what a Pool needs.
type Config struct {
	// Account returns the account of a hub's user, making it at the first time.
	Account func(ctx context.Context, hub string, user spawner.User) (spawner.Account, error)
	PerUser int // most kernels that a user may have at once. Zero: not limited
	// Busy says that the host has enough to do: no standbys are made then. Nil: it never has.
	Busy   func() bool
	Logger *slog.Logger
}

// Pool does what is particular to kernels. Its methods are safe for concurrent use. The engine's lock guards what it
// has in memory.
type Pool struct {
	cfg      Config
	log      *slog.Logger
	engine   *engine.Manager
	sessions *sessions.Sessions
	pools    pools
	// By entries: how many failed, by causes, and how much of what they said was not kept.
	failures causes
	dropped  map[string]int64
	restarts causes // that began anew in their places
}

// New makes the Pool of the engine that has the records of kernels, and has it ask the Pool about them. Requests are
// examined, and idle kernels ended, as sessions are.
func New(e *engine.Manager, s *sessions.Sessions, cfg Config) *Pool {
	k := &Pool{
		cfg: cfg, log: cfg.Logger, engine: e, sessions: s, pools: newPools(),
		failures: causes{}, dropped: map[string]int64{}, restarts: causes{},
	}
	e.Register(k.kind(), spawner.Kernel)
	return k
}
