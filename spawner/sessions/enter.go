package sessions

import (
	"context"
	"fmt"
	"time"

	"slipway/spawner"
	"slipway/spawner/culling"
	"slipway/spawner/engine"
)

// Enter saves a new start: of the kept session, or of a new one when kept is nil.
func (s *Sessions) Enter(
	ctx context.Context, tx engine.Tx, hub string, r spawner.SessionRequest, kept *engine.Entry,
) (spawner.Workload, error) {
	e := kept
	if e == nil {
		e = engine.NewEntry(s.SessionOf(hub, r))
	}
	r.Spec.GPU = s.engine.InGroup(r.Spec.GPU, hub, r.User)
	err := tx.Start(ctx, e, r.Launch, r.Secrets, func(e *engine.Entry) {
		e.Spec, e.Phase, e.Outcome = r.Spec, spawner.Pending, nil
		e.Pulse, e.Moves, e.Bad, e.Evictions = culling.Pulse{}, 0, nil, 0
		e.Host, e.Kernel, e.Session = "", r.Kernel, r.From
		e.Up, e.Active, e.Visited, e.KeepUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	})
	if err != nil {
		return spawner.Workload{}, err
	}
	tx.Sched().Asked(&e.Workload)
	message := "Asked for a " + r.Kind.Noun()
	if kept != nil && kept.Ran {
		message = fmt.Sprintf("Found your session of %s: its changes come back", kept.Created.Format("2 January 15:04"))
	}
	tx.Note(e, spawner.Event{Percent: 0, Message: message})
	return e.Workload, nil
}

// SessionOf returns a new session, as nobody has started it yet.
func (s *Sessions) SessionOf(hub string, r spawner.SessionRequest) spawner.Workload {
	now := time.Now()
	return spawner.Workload{
		ID: engine.NewID(r.Kind), Kind: r.Kind, Owner: r.User, Hub: hub, Name: r.Name,
		KernelRecord: spawner.KernelRecord{Entry: r.Entry}, Backend: r.Backend,
		RemoteRecord: spawner.RemoteRecord{Remote: s.engine.IsRemote(r.Backend)}, Spec: r.Spec,
		Created: now, Since: now,
	}
}
