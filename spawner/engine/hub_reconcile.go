package engine

import (
	"context"

	"slipway/internal/errs"
	"slipway/spawner"
)

// What a Hub is not believed: that of many sessions most are not its own. Then it has rather lost its database.
const (
	manyStrangers  = 10
	mostOfSessions = 0.5
)

// ReconcileHub compares a hub's active sessions with the Hub's own list. A session that the list lacks twice in a row
// is a stranger: its Hub died while it started, or gave it up without saying so, and nobody can reach it. It is stopped
// if r says so, and keeps its changes.
func (m *Manager) ReconcileHub(ctx context.Context, r spawner.Roster) (spawner.HubReconcileReport, error) {
	known := make(map[spawner.Server]bool, len(r.Servers))
	for _, s := range r.Servers {
		known[s] = true
	}
	tx := m.Begin()
	defer tx.End()
	active, strange, again := 0, map[launch]bool{}, []*Entry{}
	for _, e := range m.work {
		if e.Hub != r.Hub || !e.Kind.HubServer() || !e.Phase.Active() || e.Phase == spawner.Stopping {
			continue
		}
		active++
		if known[spawner.Server{User: e.Owner, Name: e.Name}] || e.Started.After(r.Asked.Add(-r.Age)) {
			continue
		}
		l := launch{e.Hub, e.Launch}
		strange[l] = true
		if m.strangers[r.Hub][l] {
			again = append(again, e)
		}
	}
	m.strangers[r.Hub], m.strange[r.Hub] = strange, len(again)
	report := spawner.HubReconcileReport{Strangers: len(again)}
	if !r.Stop || len(again) == 0 {
		return report, nil
	}
	if len(again) >= manyStrangers && float64(len(again)) > mostOfSessions*float64(active) {
		return report, errs.New(errs.Conflict, "hub %s does not know %d of its %d sessions: none is stopped", r.Hub, len(again), active).
			With("it may have lost its database; stop them with `slipway sessions stop` if that is true")
	}
	for _, e := range again {
		if err := tx.dismiss(ctx, e); err != nil {
			return report, err
		}
		report.Stopped = append(report.Stopped, e.ID)
	}
	return report, nil
}

// dismiss stops a session that its Hub does not know.
func (tx Tx) dismiss(ctx context.Context, e *Entry) error {
	tx.m.log.Warn("stopping a session that its Hub does not know", "id", e.ID, "owner", e.Owner, "hub", e.Hub, "phase", e.Phase)
	e.interrupt()
	return tx.end(ctx, e, spawner.Outcome{Canceled: true, Reason: "its Hub did not know it any more", Remedy: "start it again: its changes are kept"})
}
