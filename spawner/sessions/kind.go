package sessions

import (
	"context"
	"maps"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/lifecycle"
)

// Kind returns what the engine asks about sessions. Kernels are looked after likewise, as far as they are not told
// apart.
func (s *Sessions) Kind() engine.Kind {
	return engine.Kind{
		Role: lifecycle.Session, Canceled: canceled,
		Evicted:  "; what ran in it is lost, and what was changed outside your home if it does not come back",
		FindBase: s.findBase, Follow: s.takePulse, Heard: s.hear, Waits: s.warn,
		Due:     func(e engine.Entry, now time.Time) bool { return isDue(&e, now) },
		Expired: s.expired, Exited: s.exited, Ailment: s.ailment, Collect: s.collect, Checkpoint: s.checkpoint,
		CheckpointViaAgent: s.checkpointViaAgent, Ending: s.ending, Count: s.count,
	}
}

// ending counts a session that has failed before it came up, and has the log say why.
func (s *Sessions) ending(_ engine.Tx, e *engine.Entry, o spawner.Outcome) {
	if !o.Failed || o.Canceled || e.Phase == spawner.Running {
		return
	}
	s.startsFailed[startCause(e, o)]++
	s.log.Warn(
		"a session did not start", "session", e.ID, "hub", e.Hub, "owner", e.Owner, "profile", e.Spec.Profile,
		"reason", o.Reason, "remedy", o.Remedy,
	)
}

// startCause says in a word why a session has failed before it came up.
func startCause(e *engine.Entry, o spawner.Outcome) spawner.Cause {
	switch {
	case o.Cause != "":
		return o.Cause
	case e.Status.State == control.Exited:
		return spawner.CauseExit
	default:
		return spawner.CauseStart
	}
}

// count adds how many starts have failed.
func (s *Sessions) count(_ engine.View, to *spawner.Stats) {
	to.StartsFailed = maps.Clone(s.startsFailed)
}

// hear notes what was killed in a session for want of memory, and has it told.
func (s *Sessions) hear(tx engine.Tx, e *engine.Entry, word control.Status) func(context.Context) {
	alert, news := s.hearMemory(tx, e, word)
	if !news {
		return nil
	}
	id := e.ID
	return func(ctx context.Context) { s.tellAlert(ctx, id, alert) }
}
