package engine

import (
	"context"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// backend finds a backend by the name that a record has.
func (m *Manager) backend(name string) spawner.Backend {
	if b := m.backends[name]; b != nil {
		return b
	}
	return missingBackend(name)
}

// missingBackend is a backend of which there are records and that the configuration does not have any more. Nothing is
// known of what it holds, so nothing is concluded: its workloads stay as they are until it is configured again.
type missingBackend string

// Name returns the name in the records.
func (u missingBackend) Name() string { return string(u) }

func (u missingBackend) err() error {
	return errs.New(errs.Missing, "backend %s is not configured any more", string(u)).
		With("configure it again, at least until what it holds is gone")
}

// Check says that it is not there, as all methods do.
func (u missingBackend) Check(context.Context) error { return u.err() }

// Start fails.
func (u missingBackend) Start(context.Context, spawner.Launch) error { return u.err() }

// Observe sees nothing.
func (u missingBackend) Observe(context.Context, spawner.ID) (spawner.Observation, error) {
	return spawner.Observation{Existence: spawner.Unknown}, u.err()
}

// Stop fails.
func (u missingBackend) Stop(context.Context, spawner.ID, time.Duration) error { return u.err() }

// Remove fails.
func (u missingBackend) Remove(context.Context, spawner.ID) error { return u.err() }

// List fails.
func (u missingBackend) List(context.Context) (map[spawner.ID]spawner.Existence, error) {
	return nil, u.err()
}
