package engine

import (
	"context"
	"fmt"
	"time"

	"slipway/spawner"
	"slipway/spawner/culling"
)

// Enter saves a new start: of the kept session, or of a new one when kept is nil.
func (tx Tx) Enter(ctx context.Context, hub string, r spawner.SessionRequest, kept *Entry) (spawner.Workload, error) {
	now := time.Now()
	e := kept
	if e == nil {
		e = NewEntry(tx.m.SessionOf(hub, r))
	}
	turn := tx.m.sched.NextTurn()
	r.Spec.GPU = tx.m.InGroup(r.Spec.GPU, hub, r.User)
	err := tx.Change(ctx, e, func(e *Entry) {
		e.Spec, e.Launch, e.Want, e.Phase, e.Outcome, e.Started, e.Turn = r.Spec, r.Launch, spawner.WantRunning, spawner.Pending, nil, now, turn
		e.Secrets, e.Sealed = OrEmpty(r.Secrets), tx.m.Seal(e.ID, r.Launch, r.Secrets)
		e.Begun, e.Collecting, e.Pulse, e.Moves, e.Bad, e.Evictions = false, time.Time{}, culling.Pulse{}, 0, nil, 0
		e.Host, e.Kernel, e.Session = "", r.Kernel, r.From
		e.Up, e.Active, e.Visited, e.KeepUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	})
	if err != nil {
		return spawner.Workload{}, err
	}
	tx.m.sched.Asked(&e.Workload)
	message := "Asked for a session"
	if r.Kind == spawner.Kernel {
		message = "Asked for a kernel"
	}
	if kept != nil && kept.Ran {
		message = fmt.Sprintf("Found your session of %s: its changes come back", kept.Created.Format("2 January 15:04"))
	}
	tx.Note(e, spawner.Event{Percent: 0, Message: message})
	return e.Workload, nil
}

// SessionOf returns a new session, as nobody has started it yet.
func (m *Manager) SessionOf(hub string, r spawner.SessionRequest) spawner.Workload {
	now := time.Now()
	return spawner.Workload{
		ID: NewID(r.Kind), Kind: r.Kind, Owner: r.User, Hub: hub, Name: r.Name,
		KernelRecord: spawner.KernelRecord{Entry: r.Entry}, Backend: r.Backend,
		RemoteRecord: spawner.RemoteRecord{Remote: m.IsRemote(r.Backend)}, Spec: r.Spec,
		Created: now, Since: now,
	}
}
