// Package sessions does what is a session's own: it starts sessions, follows what goes on in them, warns of their end
// and says when it has come, tells of limits, keeps what was changed on other hosts, and compares sessions with the
// lists of their Hubs.
//
// Promises: a server has one active session at most, of several starts that wait for its end the last is the one that
// counts, and nobody starts with a profile that is not surely theirs. The records are the engine's; this package must
// not start or end a container itself.
package sessions

import (
	"context"
	"io"
	"log/slog"

	"slipway/spawner"
	"slipway/spawner/catalog"
	"slipway/spawner/engine"
)

// Config is what Sessions need.
type Config struct {
	// Account returns the account of a hub's user, making it at the first time.
	Account func(ctx context.Context, hub string, user spawner.User) (spawner.Account, error)
	// Catalogue is what the site offers: by it StartSession knows which profiles are not everybody's.
	Catalogue catalog.Catalogue
	// Member says whether a hub's user is one of those to whom a profile is open that is not everybody's; an error says
	// why that is not known just now. Nil: nobody is.
	Member func(hub string, user spawner.User, p catalog.Profile) (bool, error)
	// Environment finds an environment by digest, name or tag among those that a hub's user may use, and gives its
	// digest. Nil: there are none.
	Environment func(ctx context.Context, hub string, user spawner.User, ref string) (digest string, err error)
	// Base returns the environment of an image without changes, for a session of a Remote that was asked for by an
	// image alone. It may take long, and tells how far it is. Nil: a Remote's sessions start from environments alone.
	Base func(ctx context.Context, image string, tell func(message string, percent int)) (digest string, err error)
	// Keep makes an environment of what a session has changed over w.Spec.Environment, as package images/changeset
	// streams it. Repeating it gives the same one. Nil: a Remote runs no sessions.
	Keep func(ctx context.Context, w spawner.Workload, changes io.Reader) (digest string, err error)
	// Ailment says what of a session's home may have kept it from running, and what its user can do; empty: nothing.
	// Nil: it is not known.
	Ailment func(w spawner.Workload) (why, remedy string)
	Logger  *slog.Logger
}

// Sessions does what is a session's own. Its methods are safe for concurrent use. The engine's lock guards what it has
// in memory.
type Sessions struct {
	cfg       Config
	log       *slog.Logger
	engine    *engine.Manager
	strangers map[string]map[string]bool // launches that the last comparison with its list found, by hub
	asks      map[seat]*ask              // starts that are being asked for
	// startsFailed counts the sessions that have failed before they came up, since the service started.
	startsFailed map[spawner.Cause]int
}

// New makes Sessions of the engine that has their records, and has it ask them about sessions.
func New(e *engine.Manager, cfg Config) *Sessions {
	s := &Sessions{
		cfg: cfg, log: cfg.Logger, engine: e, strangers: map[string]map[string]bool{}, asks: map[seat]*ask{},
		// Those that are usual are there from the beginning: Prometheus does not see the first of a new one.
		startsFailed: map[spawner.Cause]int{spawner.CauseStart: 0, spawner.CauseExit: 0, spawner.CauseLost: 0},
	}
	e.Register(s.Kind(), spawner.Lab, spawner.Code)
	return s
}
