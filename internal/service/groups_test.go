package service

import (
	"slices"
	"testing"
	"time"

	"slipway/hubapi/hub"
	"slipway/internal/config"
	"slipway/internal/hubsync"
	"slipway/spawner"
)

// TestGroupsOfAHubAreItsOwn: a user of another Hub is in no group of this one, whatever she and it are called, unless
// the configuration joins the two; and what the configuration lists needs no Hub.
func TestGroupsOfAHubAreItsOwn(t *testing.T) {
	at := func(users ...string) *hubsync.Membership {
		m := hubsync.NewMembership(time.Minute)
		m.Set(time.Now(), []hub.Group{{Name: "higgs", Users: users}, {Name: "own", Users: users[:1]}})
		return m
	}
	stale := hubsync.NewMembership(time.Minute)
	stale.Set(time.Now().Add(-time.Hour), []hub.Group{{Name: "higgs", Users: []string{"alice"}}})
	s := &service{
		cfg: config.Config{Groups: map[string][]string{"site": {"alice", "@desy/alice"}, "few": {"bob"}},
			HubGroups: config.HubGroups{
				Join: map[string][]string{"both": {"cern:higgs", "desy:higgs"}, "one": {"cern:own"}},
			}},
		realms: realms{"cern": "site", "desy": "desy", "down": "down", "mute": "site"},
		hubs: []hubPart{
			{cfg: config.Hub{Name: "cern"}, groups: at("alice", "carol")},
			{cfg: config.Hub{Name: "desy"}, groups: at("bob", "alice")},
			{cfg: config.Hub{Name: "down"}, groups: stale}, {cfg: config.Hub{Name: "mute"}},
		},
	}
	for who, want := range map[[2]string][]string{
		{"cern", "alice"}: {"both", "cern:higgs", "cern:own", "one", "site"},
		{"cern", "bob"}:   {"few"},
		{"cern", "carol"}: {"both", "cern:higgs"},
		{"desy", "alice"}: {"both", "desy:higgs", "site"},
		{"desy", "bob"}:   {"both", "desy:higgs", "desy:own"},
		{"desy", "carol"}: nil,
		{"down", "alice"}: nil,
		{"mute", "alice"}: {"site"},
		{"gone", "alice"}: nil,
	} {
		if got := s.groupsOf(who[0], spawner.User(who[1])); !slices.Equal(got, want) {
			t.Errorf("%s at %s is in %q, want %q", who[1], who[0], got, want)
		}
	}
	for group, want := range map[string][]string{
		"site": {"@desy/alice", "alice"}, "cern:higgs": {"alice", "carol"},
		"both":       {"@desy/alice", "@desy/bob", "alice", "carol"},
		"down:higgs": {"@down/alice"}, "higgs": nil, "mute:higgs": nil,
	} {
		if got := s.membersOf(group); !slices.Equal(got, want) {
			t.Errorf("in %s are %q, want %q", group, got, want)
		}
	}
}
