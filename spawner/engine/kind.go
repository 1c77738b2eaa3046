package engine

import (
	"context"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// Kind is what is particular to the workloads of some kinds. What takes a Tx or a View is called under the lock: it is
// quick, and asks the Manager nothing.
type Kind interface {
	// Run does what goes on beside all workloads, until ctx ends.
	Run(ctx context.Context)
	// Resynced is called after each look at everything.
	Resynced(ctx context.Context)
	// Prewarmed notes that a standby has done what can be done of its start beforehand.
	Prewarmed(tx Tx, e *Entry)
	// Up notes that a workload has come up.
	Up(tx Tx, e *Entry)
	// Active notes what a workload's agent tells of what goes on in it, before the engine does.
	Active(tx Tx, e *Entry, a control.Activity)
	// Left hears whether all clients of a workload have left it.
	Left(ctx context.Context, id spawner.ID, left bool)
	// Ending notes how a workload comes to its end, before that is saved.
	Ending(tx Tx, e *Entry, o spawner.Outcome)
	// Count adds what is particular to a state in numbers.
	Count(v View, s *spawner.Stats)
}

// kinds are those of which something is particular.
type kinds struct {
	of  map[spawner.Kind]Kind
	all []Kind
}

// Register has the engine ask k about the workloads of some kinds. It is called before Run.
func (m *Manager) Register(k Kind, of ...spawner.Kind) {
	for _, kind := range of {
		m.kinds.of[kind] = k
	}
	m.kinds.all = append(m.kinds.all, k)
}

// ask asks about a workload of a kind, unless nothing is particular to it.
func (k kinds) ask(kind spawner.Kind, do func(Kind)) {
	if of := k.of[kind]; of != nil {
		do(of)
	}
}

// tell tells all.
func (k kinds) tell(do func(Kind)) {
	for _, of := range k.all {
		do(of)
	}
}
