package sessions

import (
	"context"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// What a Hub is not believed: that of many sessions most are not its own. Then it has rather lost its database.
const (
	manyStrangers  = 10
	mostOfSessions = 0.5
)

// ReconcileHub compares a hub's active sessions with the Hub's own list. A session that the list lacks twice in a row
// is a stranger: its Hub died while it started, or gave it up without saying so, and nobody can reach it. It is stopped
// if r says so, and keeps its changes.
func (s *Sessions) ReconcileHub(ctx context.Context, r spawner.Roster) (spawner.HubReconcileReport, error) {
	known := make(map[spawner.Server]bool, len(r.Servers))
	for _, s := range r.Servers {
		known[s] = true
	}
	tx := s.engine.Begin()
	defer tx.End()
	active, strange, again := 0, map[string]bool{}, []*engine.Entry{}
	for _, e := range tx.All() {
		if e.Hub != r.Hub || !e.Kind.HubServer() || !e.Phase.Active() || e.Phase == spawner.Stopping {
			continue
		}
		active++
		if known[spawner.Server{User: e.Owner, Name: e.Name}] || e.Started.After(r.Asked.Add(-r.Age)) {
			continue
		}
		strange[e.Launch] = true
		if s.strangers[r.Hub][e.Launch] {
			again = append(again, e)
		}
	}
	s.strangers[r.Hub] = strange
	tx.CountStrangers(r.Hub, len(again))
	report := spawner.HubReconcileReport{Strangers: len(again)}
	if !r.Stop || len(again) == 0 {
		return report, nil
	}
	if len(again) >= manyStrangers && float64(len(again)) > mostOfSessions*float64(active) {
		return report, errs.New(
			errs.Conflict, "hub %s does not know %d of its %d sessions: none is stopped", r.Hub, len(again), active,
		).With("it may have lost its database; stop them with `slipway sessions stop` if that is true")
	}
	for _, e := range again {
		if err := s.dismiss(ctx, tx, e); err != nil {
			return report, err
		}
		report.Stopped = append(report.Stopped, e.ID)
	}
	return report, nil
}

// dismiss stops a session that its Hub does not know.
func (s *Sessions) dismiss(ctx context.Context, tx engine.Tx, e *engine.Entry) error {
	s.log.Warn(
		"stopping a session that its Hub does not know", "id", e.ID, "owner", e.Owner, "hub", e.Hub, "phase", e.Phase,
	)
	e.Interrupt()
	return tx.Finish(ctx, e, spawner.Outcome{
		Canceled: true, Reason: "its Hub did not know it any more", Remedy: "start it again: its changes are kept",
	})
}
