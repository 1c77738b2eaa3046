package service

import (
	"testing"
	"time"

	"slipway/hubapi/hub"
	"slipway/internal/config"
	"slipway/internal/hubsync"
	"slipway/spawner"
)

func TestTheFirstLimitThatFitsCounts(t *testing.T) {
	fresh, stale := hubsync.NewMembership(time.Minute), hubsync.NewMembership(time.Minute)
	fresh.Set(time.Now(), []hub.Group{{Name: "higgs", Users: []string{"carol"}}})
	stale.Set(time.Now().Add(-time.Hour), []hub.Group{{Name: "higgs", Users: []string{"carol"}}})
	s := &service{
		cfg: config.Config{
			Groups: map[string][]string{"few": {"bob"}},
			Jobs: config.Jobs{Limits: []config.JobLimit{
				{Users: []string{"alice"}, MaxRunning: 1}, {Groups: []string{"few", "main:higgs"}, MaxRunning: 2},
				{Users: []string{"dave"}, MaxRunning: 3}, {MaxRunning: 4, MaxStorage: 7},
			}},
		},
		realms: realms{"main": "site", "down": "down"},
		hubs:   []hubPart{{cfg: config.Hub{Name: "main"}, groups: fresh}},
	}
	is := func(user string, running int, want bool) {
		t.Helper()
		if a, sure := s.allowance("main", spawner.User(user)); a.Running != running || sure != want {
			t.Errorf("%s: %+v, %v", user, a, sure)
		}
	}
	is("alice", 1, true)
	is("bob", 2, true)
	is("carol", 2, true)
	is("dave", 3, true)
	is("eve", 4, true)
	s.hubs[0].groups = stale
	is("alice", 1, true)
	is("eve", 2, false) // for all that is known
}
