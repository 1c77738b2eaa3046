package backends

import (
	"context"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// missing is a backend of which there are records and that the configuration does not have any more. Nothing is
// known of what it holds, so nothing is concluded: its workloads stay as they are until it is configured again.
type missing string

// Name returns the name in the records.
func (u missing) Name() string { return string(u) }

func (u missing) err() error {
	return errs.New(errs.Missing, "backend %s is not configured any more", string(u)).
		With("configure it again, at least until what it holds is gone")
}

// Check says that it is not there, as all methods do.
func (u missing) Check(context.Context) error { return u.err() }

// Start fails.
func (u missing) Start(context.Context, spawner.Launch) error { return u.err() }

// Observe sees nothing.
func (u missing) Observe(context.Context, spawner.ID) (spawner.Observation, error) {
	return spawner.Observation{Existence: spawner.Unknown}, u.err()
}

// Stop fails.
func (u missing) Stop(context.Context, spawner.ID, time.Duration) error { return u.err() }

// Remove fails.
func (u missing) Remove(context.Context, spawner.ID) error { return u.err() }

// List fails.
func (u missing) List(context.Context) (map[spawner.ID]spawner.Existence, error) {
	return nil, u.err()
}
