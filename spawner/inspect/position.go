package inspect

import (
	"cmp"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// Queue says why and how long a workload waits for room.
func (i *Inspector) Queue(w spawner.Workload) spawner.Queue {
	v := i.engine.View()
	defer v.End()
	e := v.Entry(w.ID)
	if e == nil || !e.InQueue() {
		return spawner.Queue{}
	}
	return v.Sched().Queue(&e.Workload)
}

// Room says whether a session of resources r, with the slice of a GPU that g asks for, could start now on a backend;
// empty: Config.Sessions. How long a Remote lets it wait there is not known.
func (i *Inspector) Room(backend string, r spawner.Resources, g gpu.Request) spawner.Room {
	v := i.engine.View()
	defer v.End()
	backend = cmp.Or(backend, i.engine.SessionBackend())
	return v.Sched().Room(spawner.Workload{
		Backend: backend, RemoteRecord: spawner.RemoteRecord{Remote: i.engine.IsRemote(backend)},
		Spec: spawner.Spec{Resources: r, GPU: g},
	})
}

// Census counts the active sessions of a hub by what per says of each; empty words are not counted.
func (i *Inspector) Census(hub string, per func(spawner.Workload) string) map[string]int {
	v := i.engine.View()
	defer v.End()
	count := map[string]int{}
	for _, e := range v.All() {
		if e.Kind.Batch() || e.Standby != "" || e.Hub != hub || !e.Phase.Active() {
			continue
		}
		if word := per(e.Workload); word != "" {
			count[word]++
		}
	}
	return count
}
