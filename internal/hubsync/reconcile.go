package hubsync

import (
	"context"
	"math/rand/v2"
	"time"

	"slipway/hubapi/hub"
	"slipway/internal/clock"
	"slipway/spawner"
)

// reconcileTime bounds one reading of the Hub's list.
const reconcileTime = 3 * time.Minute

// reconcile has the engine compare its sessions with the Hub's from time to time.
func (s *Syncer) reconcile(ctx context.Context) {
	t := trouble{log: s.log, what: "compare the sessions with the Hub's servers"}
	for wait := rand.N(s.cfg.Every); clock.Sleep(ctx, wait); wait = about(s.cfg.Every) {
		t.note(ctx, s.reconcileOnce(ctx))
	}
}

func (s *Syncer) reconcileOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileTime)
	defer cancel()
	asked := time.Now() // what began while the Hub answered may be missing from its answer
	users, err := s.cfg.Hub.Users(ctx)
	if err != nil {
		return err
	}
	report, err := s.cfg.Engine.ReconcileHub(ctx, spawner.Roster{
		Hub: s.cfg.Name, Asked: asked, Age: s.cfg.Age, Stop: s.cfg.Stop, Servers: serversOf(users),
	})
	if report.Strangers > 0 {
		s.log.Warn("sessions that the Hub does not know", "sessions", report.Strangers, "stopped", len(report.Stopped))
	}
	return err
}

// serversOf returns the servers that the Hub has a use for.
func serversOf(users []hub.User) []spawner.Server {
	var servers []spawner.Server
	for _, u := range users {
		for name, s := range u.Servers {
			if s.Stopped && !s.Ready && s.Pending == "" {
				continue
			}
			servers = append(servers, spawner.Server{User: spawner.User(u.Name), Name: name})
		}
	}
	return servers
}
