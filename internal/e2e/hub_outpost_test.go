package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/internal/hubtest"
)

// outpostConfig is what a site that runs OutpostSpawner may have: sync and async in one Hub, by the server's name.
const outpostConfig = `
by_name = lambda spawner: spawner.name.startswith("async")
c.OutpostSpawner.start_async = by_name
c.OutpostSpawner.stop_async = by_name
right = c.OutpostSpawner.request_headers
wrong = {"Authorization": "Basic " + base64.b64encode(b"hub1:not-the-password").decode()}
c.OutpostSpawner.request_headers = lambda spawner, options: wrong if spawner.user.name == "mallory" else right
c.OutpostSpawner.custom_poll_interval = 2000
c.Spawner.http_timeout = 120
del c.Spawner.poll_interval  # it has its own
`

// TestOutpostSpawner lets the published OutpostSpawner, unchanged, in a real Hub, start, watch and stop sessions.
func TestOutpostSpawner(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, major int) {
		s := newHubSite(t, hubOptions{major: major, spawner: hubtest.Outpost, config: outpostConfig})
		s.outpostServers()
		s.outpostRefusals()
		s.outpostRestarts()
		s.outpostRaw()
	})
}

// outpostServers starts the default server and named ones, sync and async, two of one name, all at once.
func (s *hubSite) outpostServers() {
	servers := []struct{ user, name string }{{"alice", ""}, {"alice", "lab"}, {"bob", "lab"}, {"bob", "async-lab"}}
	for _, v := range servers {
		s.startOnly(v.user, v.name, []any{nil, map[string]any{"flavor": "small"}}[len(v.name)%2])
	}
	events := s.hub.Progress("bob", "async-lab")
	if last := events[len(events)-1]; len(events) < 4 || !last.Ready {
		s.t.Errorf("the events of a start: %+v", events)
	}
	starts := map[any]bool{}
	for _, v := range servers {
		server := s.hub.WaitReady(v.user, v.name)
		starts[server.State["start_id"]] = true
		if w := s.sessionOf(v.user, v.name); w.Phase != "running" {
			s.t.Errorf("the session %q of %s: %+v", v.name, v.user, w)
		}
		s.opens(v.user, server.URL)
	}
	if len(starts) != len(servers) || len(s.containers()) != len(servers) {
		s.t.Errorf("%d starts, %d containers for %d servers", len(starts), len(s.containers()), len(servers))
	}
	s.stop("bob", "lab") // alice's of the same name stays
	s.opens("alice", s.hub.WaitReady("alice", "lab").URL)
	s.stopAll(servers)
	if left := s.containers(); len(left) > 0 {
		s.t.Errorf("containers after all stops: %v", left)
	}
}

// opens wants the JupyterLab behind a server's address to answer its user's token, and nobody else's.
func (s *hubSite) opens(user, address string) {
	s.t.Helper()
	s.eventually(address+" answers", func() bool {
		return s.hub.Through(s.token(user), http.MethodGet, address+"api/status", nil).Status == http.StatusOK
	})
	if r := s.hub.Through(s.token("eve"), http.MethodGet, address+"api/status", nil); r.Status != http.StatusForbidden {
		s.t.Errorf("%s for eve: %s", address, r.Text())
	}
}

// outpostRefusals wants reasons that a person can read where the Hub shows why nothing starts.
func (s *hubSite) outpostRefusals() {
	for _, tt := range []struct {
		user, about string
		options     any
		want        []string
	}{
		{"carol", "an unknown flavor", map[string]any{"flavor": "huge"}, []string{"huge", "small"}},
		{"dave", "an image that is not there", map[string]any{"flavor": "absent"}, []string{"slipway/no-such-image:1"}},
		{"mallory", "a wrong credential", nil, []string{"Incorrect username or password"}},
	} {
		s.startOnly(tt.user, "", tt.options)
		events := s.hub.Progress(tt.user, "")
		text := fmt.Sprintf("%+v", events)
		if !events[len(events)-1].Failed {
			s.t.Errorf("%s: did not fail", tt.about)
		}
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				s.t.Errorf("%s: %q lacks %q", tt.about, text, want)
			}
		}
		s.gone(tt.user, "")
	}
	if left := s.containers(); len(left) > 0 {
		s.t.Errorf("containers of starts that failed: %v", left)
	}
}

// outpostRestarts kills the service while one session runs and others start, then the Hub likewise, then a container.
func (s *hubSite) outpostRestarts() {
	s.startOnly("alice", "", nil)
	before := s.hub.WaitReady("alice", "")
	s.startOnly("bob", "", nil)
	s.startOnly("bob", "async", nil)
	s.eventually("the Hub knows that both starts are with the service", func() bool {
		log := s.hub.Log(1 << 20)
		return strings.Contains(log, "bob - Start response") && strings.Contains(log, "bob:async - Start response")
	})
	s.kill()
	<-time.After(3 * time.Second) // the Hub polls meanwhile
	s.serve()
	s.hub.WaitReady("bob", "")
	s.hub.WaitReady("bob", "async")
	s.opens("alice", before.URL)

	s.token("dora")
	s.startOnly("dora", "", nil)
	s.phaseOf("dora", "leased", "starting", "booting")
	s.hub.Kill()
	s.hub.Restart()
	// OutpostSpawner's id of a start is stored a little after the service has answered. A Hub that is killed before has
	// forgotten the server, and its next start takes the session over.
	if _, known := s.hub.Server("dora", ""); !known {
		s.startOnly("dora", "", nil)
	}
	servers := []struct{ user, name string }{{"alice", ""}, {"bob", ""}, {"bob", "async"}, {"dora", ""}}
	for _, v := range servers {
		server := s.hub.WaitReady(v.user, v.name)
		s.opens(v.user, server.URL)
	}
	if n := len(s.containers()); n != len(servers) {
		s.t.Errorf("%d containers for %d servers", n, len(servers))
	}
	if after := s.hub.WaitReady("alice", ""); after.State["start_id"] != before.State["start_id"] {
		s.t.Errorf("alice's server was started again: %v, was %v", after.State, before.State)
	}
	docker(s.t, "kill", "slipway-"+s.sessionOf("alice", "").ID)
	s.gone("alice", "")
	s.stopAll(servers[1:])
}

// outpostRaw asks as OutpostSpawner does for a default server: with an empty name, which no router may clean away.
func (s *hubSite) outpostRaw() {
	s.startOnly("alice", "", nil)
	server := s.hub.WaitReady("alice", "")
	path := fmt.Sprintf("/services//%v", server.State["start_id"])
	for _, step := range []struct {
		method, path, password string
		status                 int
		body                   string
	}{
		{http.MethodGet, path, "not-the-password", http.StatusUnauthorized, "Incorrect username or password"},
		{http.MethodDelete, path, "not-the-password", http.StatusUnauthorized, "Incorrect username or password"},
		{http.MethodGet, path, hubtest.OutpostPassword, http.StatusOK, `"status":null`},
		{http.MethodDelete, path, hubtest.OutpostPassword, http.StatusOK, "{"},
		{http.MethodDelete, path, hubtest.OutpostPassword, http.StatusOK, "{"},                 // again: stopping what is gone is success
		{http.MethodGet, path, hubtest.OutpostPassword, http.StatusNotFound, "Item not found"}, // as upstream answers
		{http.MethodGet, "/services//nobody-has-started-this", hubtest.OutpostPassword, http.StatusNotFound, "Item not found"},
		{http.MethodDelete, "/services//nobody-has-started-this", hubtest.OutpostPassword, http.StatusNotFound, "Item not found"},
	} {
		got := s.outpost(step.method, step.path, step.password)
		var o map[string]json.RawMessage
		if err := json.Unmarshal(got.body, &o); err != nil || got.status != step.status || !strings.Contains(string(got.body), step.body) {
			s.t.Errorf("%s %s: %d %s, want %d with %q", step.method, step.path, got.status, got.body, step.status, step.body)
		}
	}
	s.gone("alice", "")
}

// outpost sends a request by itself, as it is, and follows nothing.
func (s *hubSite) outpost(method, path, password string) reply {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.SetBasicAuth(hubtest.OutpostUser, password)
	return send(s.t, req)
}

func send(t testing.TB, req *http.Request) reply {
	t.Helper()
	r := hubtest.Send(t, req)
	return reply{r.Status, r.Body}
}
