package sessions

import (
	"context"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// Kind returns what the engine asks about sessions. Kernels are looked after likewise, as far as they are not told
// apart.
func (s *Sessions) Kind() engine.Kind { return kind{s} }

type kind struct{ *Sessions }

// Run does nothing: what goes on in sessions is followed by Follow.
func (s kind) Run(context.Context) {}

// Resynced does nothing.
func (s kind) Resynced(context.Context) {}

// Follow asks a session's agent from time to time what goes on in it.
func (s kind) Follow(ctx context.Context, id spawner.ID) { s.takePulse(ctx, id) }

// Heard notes what was killed in a session for want of memory, and has it told.
func (s kind) Heard(tx engine.Tx, e *engine.Entry, word control.Status) func(context.Context) {
	alert, news := s.hearMemory(tx, e, word)
	if !news {
		return nil
	}
	id := e.ID
	return func(ctx context.Context) { s.tellAlert(ctx, id, alert) }
}

// Waits warns of a session's end.
func (s kind) Waits(ctx context.Context, e engine.Entry) { s.warn(ctx, e) }

// Due reports whether a session has idled for too long, is too old, or has gone beyond a limit.
func (s kind) Due(e engine.Entry, now time.Time) bool { return isDue(&e, now) }

// Expired says why a session was ended.
func (s kind) Expired(e engine.Entry) spawner.Outcome { return s.expired(e) }

// Prewarmed does nothing: no session stands by.
func (s kind) Prewarmed(engine.Tx, *engine.Entry) {}

// Up does nothing.
func (s kind) Up(engine.Tx, *engine.Entry) {}

// Active does nothing beside what all are noted for.
func (s kind) Active(engine.Tx, *engine.Entry, control.Activity) {}

// Left does nothing: a session does not end with its clients.
func (s kind) Left(context.Context, spawner.ID, bool) {}

// Ending does nothing.
func (s kind) Ending(engine.Tx, *engine.Entry, spawner.Outcome) {}

// Count does nothing.
func (s kind) Count(engine.View, *spawner.Stats) {}
