package service

import (
	"fmt"
	"testing"

	"slipway/internal/config"
	"slipway/spawner"
)

// TestNobodyNamesHerselfIntoAGroup: who shares GPUs with whom follows from the configuration alone. A hub and the realm
// of its users often have one name, and users choose theirs.
func TestNobodyNamesHerselfIntoAGroup(t *testing.T) {
	s := &service{
		cfg: config.Config{
			GPU: config.GPU{Sharing: map[string][]string{"cms": {"alice"}, "atlas": {"alice", "bob"}}},
		},
		realms: realms{"cern": "cern", "desy": "desy"},
	}
	here, there := s.trustGroup("cern", "bob"), s.trustGroup("desy", "bob")
	if here == "" || here == there {
		t.Errorf("people of two realms are in %q and %q", here, there)
	}
	for range 20 { // of several groups it is always the same one
		if s.trustGroup("cern", "alice") != s.trustGroup("cern", "bob") {
			t.Fatal("a group changes from one call to the next")
		}
	}
	for _, name := range []spawner.User{"cms", "atlas", "group cms", `"atlas" of realm "cern"`, `"atlas" of realm`} {
		if g := s.trustGroup("cern", name); g != "" {
			t.Errorf("%q is in %q", name, g)
		}
		for _, hub := range []string{"cern", "desy"} {
			// as the engine names her
			if herself := fmt.Sprintf("%s of %s", name, hub); herself == here || herself == there {
				t.Errorf("a user called %q is taken for the group %q", name, herself)
			}
		}
	}
}
