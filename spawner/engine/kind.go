package engine

import (
	"context"
	"time"

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
	// Follow follows what goes on in a workload for as long as the link to its agent is up.
	Follow(ctx context.Context, id spawner.ID)
	// Heard notes the word of an agent, and returns what is to be done without the lock; nil: nothing.
	Heard(tx Tx, e *Entry, s control.Status) func(context.Context)
	// Waits looks at a workload with which nothing is to be done now.
	Waits(ctx context.Context, e Entry)
	// Due reports whether a running workload is to be ended now, and Expired says why.
	Due(e Entry, now time.Time) bool
	Expired(e Entry) spawner.Outcome
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

// Ask asks about a workload of a kind, unless nothing is particular to it.
func (m *Manager) Ask(kind spawner.Kind, do func(Kind)) {
	if of := m.kinds.of[kind]; of != nil {
		do(of)
	}
}

// tell tells all.
func (k kinds) tell(do func(Kind)) {
	for _, of := range k.all {
		do(of)
	}
}

// due reports whether a running workload is to be ended now.
func (m *Manager) due(e Entry) (due bool) {
	m.Ask(e.Kind, func(k Kind) { due = k.Due(e, time.Now()) })
	return due
}

// expiredOf returns the outcome of a workload whose time was up.
func (m *Manager) expiredOf(e Entry) (o spawner.Outcome) {
	m.Ask(e.Kind, func(k Kind) { o = k.Expired(e) })
	return o
}
