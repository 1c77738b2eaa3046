package engine

import (
	"context"

	"slipway/spawner"
	"slipway/spawner/sched"
)

// clearDependency notes durably which of those that a job waits for are done: they may be removed then. All who wait
// for the same are noted at once: these may be thousands.
func (m *Manager) clearDependency(ctx context.Context, e Entry) error {
	tx := m.Begin()
	defer tx.End()
	now := m.work[e.ID]
	if now == nil || now.Rev != e.Rev {
		return nil
	}
	var peers []*Entry
	var changes []change
	for _, id := range m.sched.Peers(&now.Workload, mostTogether) {
		peer := m.work[id]
		left := m.sched.Undone(peer.After)
		peers, changes = append(peers, peer), append(changes, peer.change(func(e *Entry) { e.After = left }))
	}
	if err := tx.save(ctx, changes); err != nil {
		return err
	}
	for _, peer := range peers {
		if len(peer.After) == 0 {
			tx.Note(peer, spawner.Event{Percent: 0, Message: "What it has waited for is done: it stands in line"})
		}
		m.queue.Add(peer.ID)
	}
	return nil
}

// needed reports whether a workload has to stay known for a moment, because somebody waits for it who has not seen how
// it ended.
func (m *Manager) needed(w *spawner.Workload) bool {
	v := m.View()
	defer v.End()
	return m.sched.Needed(w)
}

// prerequisites is what has become of what a job waits for.
func (m *Manager) prerequisites(w *spawner.Workload) sched.Prerequisites {
	v := m.View()
	defer v.End()
	return m.sched.Prerequisites(w)
}

// forsaken is the outcome of a job that waits in vain.
func (m *Manager) forsaken(w *spawner.Workload) spawner.Outcome {
	v := m.View()
	defer v.End()
	return m.sched.Forsaken(w)
}
