package cli

import (
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

func TestLastOf(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 20, 10, minute, 0, 0, time.UTC) }
	session := func(id, user, name, phase, want string, minute int) hubapi.Session {
		return hubapi.Session{
			Workload: hubapi.Workload{
				Meta: hubapi.Meta{ID: id, User: user, Name: name}, Phase: phase, Want: want, Since: at(minute),
			},
			Profile: "small",
		}
	}
	all := []hubapi.Session{
		session("older", "alice", "", "stopped", "stopped", 1), session("newer", "alice", "", "stopped", "stopped", 2),
		session("discarded", "alice", "", "stopped", "gone", 3), session("bob's", "bob", "", "stopped", "stopped", 4),
		session("named", "alice", "big", "stopped", "stopped", 0),
	}
	for name, want := range map[string]string{"": "newer", "big": "named"} {
		if got, err := lastOf(all, "alice", name); err != nil || got.ID != want {
			t.Errorf("%q: %s, %v", name, got.ID, err)
		}
	}
	_, err := lastOf(all, "alice", "lost")
	if !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), "slipway sessions resume big: small") || strings.Contains(err.Error(), "bob") {
		t.Errorf("got %v", err)
	}
}

func TestImageName(t *testing.T) {
	profiles := []hubapi.Profile{{Name: "other", Images: []hubapi.Image{{Name: "x", Ref: "slipway/root:6"}}}, {Name: "small", Images: []hubapi.Image{
		{Name: "notebook", Ref: "slipway/notebook:1"}, {Name: "root", Ref: "slipway/root:6"},
	}}}
	s := hubapi.Session{Profile: "small", Image: "slipway/root:6"}
	if name, err := imageName(profiles, s); err != nil || name != "root" {
		t.Errorf("%q, %v", name, err)
	}
	s.Image = "slipway/root:5"
	if _, err := imageName(profiles, s); !errs.Is(err, errs.Conflict) {
		t.Error(err)
	}
}

// TestHeldAt holds the word on the wire to the engine's.
func TestHeldAt(t *testing.T) {
	if hubapi.HeldAt != spawner.HeldAt {
		t.Errorf("%q on the wire, %q in the engine", hubapi.HeldAt, spawner.HeldAt)
	}
}
