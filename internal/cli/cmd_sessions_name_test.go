package cli

import (
	"strings"
	"testing"

	"slipway/hubapi"
)

func TestNamedSession(t *testing.T) {
	session := func(id, user, name, phase, want string) hubapi.Session {
		return hubapi.Session{
			Workload: hubapi.Workload{Meta: hubapi.Meta{ID: id, User: user, Name: name}, Phase: phase, Want: want},
			Profile:  "small",
		}
	}
	all := []hubapi.Session{
		session("plain", "alice", "", "running", "running"), session("bob's", "bob", "big", "running", "running"),
		session("kept", "alice", "big", "stopped", "stopped"), session("gone", "alice", "big", "stopped", "gone"),
		session("now", "alice", "code", "running", "running"), session("before", "alice", "code", "stopped", "stopped"),
	}
	for _, tt := range []struct {
		word   string
		active bool
		want   string
	}{
		{"default", false, "plain"}, {"default", true, "plain"}, {"", false, "plain"}, {"big", false, "kept"}, {"big", true, "kept"},
		{"code", true, "now"}, {"code", false, ""}, {"bob's", false, "bob's"}, {"nothing", false, "nothing"},
	} {
		got, err := namedSession(all, "alice", tt.word, tt.active)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "before: stopped, small") || strings.Contains(err.Error(), "kept")) {
			t.Error(err)
		}
	}
	if got, err := namedSession(append(all, session("old", "alice", "", "stopped", "stopped")), "alice", "default", true); got != "plain" || err != nil {
		t.Errorf("beside one that was stopped: %q, %v", got, err)
	}
	all = append(all, session("called", "alice", "default", "stopped", "stopped"))
	if got, err := namedSession(all, "alice", "default", false); got != "called" || err != nil {
		t.Errorf("a server called default: %q, %v", got, err)
	}
}
