package e2e

import (
	"net/http"
	"strings"
	"testing"

	"slipway/internal/hubtest"
)

// TestGroupsOfTheHub has a user share an environment with her group of the Hub: who is in it finds it, until the Hub
// takes her out, and until it could not be asked for a while. A profile of the group is refused to who is not in it,
// and to who may be in it with other words.
func TestGroupsOfTheHub(t *testing.T) {
	t.Parallel()
	s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Slipway, service: `
  - {name: theirs, display_name: Theirs, kind: lab, images: [notebook], cpus: 0.5, memory: 512M, allowed_groups: ["main:higgs"]}
hub_groups: {poll_interval: 10s, max_age: 20s}`})
	for _, user := range []string{"bob", "carol"} {
		s.hub.AddUser(user)
	}
	s.startOnly("alice", "", nil)
	s.answers("alice", "")
	s.group(http.MethodPost, "", "")
	s.group(http.MethodPost, "/users", "alice", "bob")
	frozen := s.as("alice", http.MethodPost, "/sessions/"+s.sessionOf("alice", "").ID+"/freeze", map[string]any{"name": "ana"})
	if !strings.Contains(string(frozen.body), `"digest":"sha256:`) {
		t.Fatalf("freeze: %d %s", frozen.status, frozen.body)
	}
	s.eventually("alice may share with her group", func() bool {
		return s.as("alice", http.MethodPost, "/environments/ana/share", map[string]any{"with": "group", "group": "higgs"}).status == http.StatusOK
	})
	sees := func(user string) bool {
		listed := func() bool {
			return strings.Contains(string(s.as(user, http.MethodGet, "/environments?shared=true", nil).body), `"ana"`)
		}
		before := listed()
		one := s.as(user, http.MethodGet, "/environments/alice%2Fana", nil)
		if found := listed(); found == before && found != (one.status == http.StatusOK) { // else it has just changed
			t.Errorf("%s finds it in the list: %v, by name: %d", user, found, one.status)
		}
		return one.status == http.StatusOK
	}
	if !sees("bob") || sees("carol") {
		t.Errorf("bob, a member, sees it: %v; carol: %v", sees("bob"), sees("carol"))
	}
	s.group(http.MethodPost, "/users", "carol")
	s.eventually("carol sees it as a member", func() bool { return sees("carol") })
	s.group(http.MethodDelete, "/users", "carol")
	s.eventually("carol is no member any more", func() bool { return !sees("carol") })
	if !sees("bob") {
		t.Error("bob went with carol")
	}
	if r := s.asksFor("carol", "theirs"); r.status != http.StatusForbidden || !strings.Contains(string(r.body), "for members of main:higgs") {
		t.Errorf("carol asks for the group's profile: %d %s", r.status, r.body)
	}
	s.token("bob") // from before; the service remembers for half a minute whose it is
	sees("bob")
	s.hub.Kill()
	s.eventually("nobody is known to be a member", func() bool {
		r := s.as("bob", http.MethodGet, "/environments/alice%2Fana", nil)
		return r.status == http.StatusNotFound || r.status == http.StatusServiceUnavailable
	})
	s.eventually("bob hears that his groups are not known", func() bool {
		r := s.asksFor("bob", "theirs")
		if r.status == http.StatusForbidden {
			t.Fatalf("unknown is taken for no: %s", r.body)
		}
		return r.status == http.StatusServiceUnavailable && strings.Contains(string(r.body), "the Hub cannot be asked for your groups just now")
	})
}

// asksFor asks for a session as the Hub's Spawner does. The launch is none, so that nothing comes of it where the
// profile is open.
func (s *hubSite) asksFor(user, profile string) reply {
	s.t.Helper()
	r := hubtest.Ask(s.t, hubtest.SpawnerToken, http.MethodPost, s.url+"/api/v1/sessions", map[string]any{
		"user": user, "server_name": "", "options": map[string]any{"profile": profile}, "prefix": "/user/" + user + "/",
	})
	return reply{r.Status, r.Body}
}

// group changes the Hub's group higgs.
func (s *hubSite) group(method, below string, users ...string) {
	s.t.Helper()
	body := map[string]any{}
	if below != "" {
		body["users"] = users
	}
	if r := s.hub.Call(method, "/groups/higgs"+below, body); r.Status >= 300 {
		s.t.Fatalf("%s /groups/higgs%s: %s", method, below, r.Text())
	}
}
