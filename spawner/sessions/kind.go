package sessions

import (
	"context"
	"time"

	"slipway/internal/agent/control"
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
		CheckpointViaAgent: s.checkpointViaAgent,
	}
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
