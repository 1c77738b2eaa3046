package service

import (
	"testing"
	"time"

	"slipway/hubapi/hub"
	"slipway/internal/config"
	"slipway/internal/hubsync"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// TestJobLimitsOfThePool: the pool's own limits count there, and this host's where it has none.
func TestJobLimitsOfThePool(t *testing.T) {
	cfg := config.Default()
	cfg.HTCondor.Enabled, cfg.HTCondor.MaxCPUs = true, 32
	p := jobPolicyOf(cfg)
	if here, far := p.On(""), p.On(config.BackendHTCondor); here.MaxCPUs != 2 || far.MaxCPUs != 32 ||
		far.MaxMemory != here.MaxMemory {
		t.Errorf("here %+v, in the pool %+v", here, far)
	}
	cfg.Jobs.Backend = config.BackendHTCondor
	if p := jobPolicyOf(cfg).On(""); p.MaxCPUs != 32 {
		t.Errorf("of jobs that go to the pool by themselves %+v", p)
	}
}

// TestWhoAProfileIsFor: its users are told apart by their realms, and a group of one Hub is none of another's.
func TestWhoAProfileIsFor(t *testing.T) {
	groups := hubsync.NewMembership(time.Minute)
	groups.Set(time.Now(), []hub.Group{{Name: "higgs", Users: []string{"carla"}}})
	s := &service{
		cfg: config.Config{
			Groups:    map[string][]string{"few": {"bob"}},
			HubGroups: config.HubGroups{Join: map[string][]string{"both": {"desy:top", "down:top"}}},
		},
		realms: realms{"cern": "site", "desy": "desy", "down": "site"},
		hubs: []hubPart{
			{cfg: config.Hub{Name: "cern"}, groups: groups}, {cfg: config.Hub{Name: "desy"}},
			{cfg: config.Hub{Name: "down"}, groups: hubsync.NewMembership(time.Minute)}, // which has said nothing yet
		},
	}
	p := catalog.Profile{Users: []string{"alice", "@desy/dora"}, Groups: []string{"few", "cern:higgs"}}
	for who, want := range map[[2]string]bool{
		{"cern", "alice"}: true, {"cern", "bob"}: true, {"cern", "carla"}: true, {"desy", "dora"}: true,
		{"desy", "alice"}: false, {"desy", "bob"}: false, {"desy", "carla"}: false, {"cern", "dora"}: false,
		{"gone", "alice"}: false, {"cern", "eve"}: false,
	} {
		if got, err := s.member(who[0], spawner.User(who[1]), p); got != want || err != nil {
			t.Errorf("%s of %s: %v, %v", who[1], who[0], got, err)
		}
	}
	for group, unsure := range map[string]bool{"down:top": true, "both": true, "few": false, "cern:higgs": false, "desy:top": false} {
		p.Groups = []string{group}
		if got, err := s.member("down", "carla", p); got || (err != nil) != unsure {
			t.Errorf("of a Hub that says nothing, in %s: %v, %v", group, got, err)
		}
		if got, err := s.member("down", "alice", p); !got || err != nil {
			t.Errorf("who is named needs no Hub: %v, %v", got, err)
		}
	}
}
