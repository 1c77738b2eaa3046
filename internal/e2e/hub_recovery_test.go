package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"slipway/internal/hubtest"
)

// TestRecovery kills the Hub, the service, or both in either order, as kill -9 does, while sessions are in every phase.
// In the end each session that its user wants is up and answers through the Hub's proxy, and nothing else is left.
func TestRecovery(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		kill func(s *hubSite)
	}{
		{"hub", func(s *hubSite) {
			s.hub.Kill()
			s.hub.Restart()
		}},
		{"service", func(s *hubSite) {
			s.kill()
			s.serve()
		}},
		{"hub and service, service back first", func(s *hubSite) {
			s.hub.Kill()
			s.kill()
			s.serve()
			s.hub.Restart()
		}},
		{"service and hub, hub back first", func(s *hubSite) {
			s.kill()
			s.hub.Kill()
			s.hub.Restart()
			s.serve()
		}},
		{"hub and proxy and service", func(s *hubSite) {
			s.hub.KillProxy()
			s.hub.Kill()
			s.kill()
			s.serve()
			s.hub.Restart()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Slipway, cpus: 3})
			s.recovers(tt.kill)
		})
	}
}

// recovers brings sessions into every phase, kills, and looks at what comes of them.
func (s *hubSite) recovers(kill func(s *hubSite)) {
	running := s.start("alice", "", nil)
	s.start("stubborn.sid", "", nil) // does not listen when it is asked to end
	s.start("eve", "", nil)          // holds what another waits for, however long all this takes
	s.token(hubtest.Admin)
	s.token("slow.bob")
	s.token("carol")
	s.token("queued.dan")

	s.startOnly("slow.bob", "", nil)
	s.phaseOf("slow.bob", "booting")
	s.hub.StopServer("stubborn.sid", "")
	s.phaseOf("stubborn.sid", "stopping")
	s.startOnly("carol", "", nil)
	s.phaseOf("carol", "leased", "starting", "booting", "running") // before the next asks: the Hub answers before the service knows
	s.startOnly("queued.dan", "", map[string]any{"cpus": 1.5})
	s.phaseOf("queued.dan", "pending")
	for _, w := range s.sessions() {
		s.t.Logf("at the kill the session of %s is %s", w.User, w.Phase)
	}
	kill(s)
	if r := s.as(hubtest.Admin, http.MethodPost, "/sessions/"+s.sessionOf("eve", "").ID+"/stop", nil); r.status != http.StatusOK {
		s.t.Fatalf("stop the session of eve: %d %s", r.status, r.body)
	}

	for _, user := range []string{"slow.bob", "carol"} {
		s.answers(user, "")
	}
	if after := s.answers("alice", ""); after["pid"] != running["pid"] || after["token"] != running["token"] {
		s.t.Errorf("alice's app was %v and is %v", running, after)
	}
	s.gone("stubborn.sid", "")
	s.answers("queued.dan", "")
	s.wholeOf("alice", "slow.bob", "carol", "queued.dan")
	for _, user := range []string{"alice", "slow.bob", "carol", "queued.dan"} {
		s.hub.StopServer(user, "")
	}
	for _, user := range []string{"alice", "slow.bob", "carol", "queued.dan"} {
		s.gone(user, "")
	}
	s.wholeOf()
}

// phaseOf waits until a user's session is in one of these phases.
func (s *hubSite) phaseOf(user string, phases ...string) {
	s.t.Helper()
	last := ""
	s.eventually(fmt.Sprintf("the session of %s is %v", user, phases), func() bool {
		last = s.sessionOf(user, "").Phase
		for _, p := range phases {
			if p == last {
				return true
			}
		}
		return false
	})
}

// wholeOf wants exactly the sessions of these users to be there: for the service, and as containers.
func (s *hubSite) wholeOf(users ...string) {
	s.t.Helper()
	want := map[string]bool{}
	for _, user := range users {
		want[user] = true
	}
	running := map[string]bool{}
	for _, w := range s.sessions() {
		if w.Phase == "stopped" {
			continue
		}
		if running["slipway-"+w.ID] = true; w.Phase != "running" || !want[w.User] {
			s.t.Errorf("a session of %s is %s", w.User, w.Phase)
		}
		delete(want, w.User)
	}
	if len(want) > 0 {
		s.t.Errorf("no session of %v", want)
	}
	for _, name := range s.containers() {
		if !running[name] {
			s.t.Errorf("container %s belongs to no session", name)
		}
		delete(running, name)
	}
	if len(running) > 0 {
		s.t.Errorf("no container of %v", running)
	}
}

// TestPollStorm restarts the Hub over many servers: it polls and visits all at once, and must lose none.
func TestPollStorm(t *testing.T) {
	t.Parallel()
	s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Slipway, cpus: 8})
	const servers = 10
	pids := map[int]any{}
	for i := range servers {
		s.startOnly(fmt.Sprintf("u%d", i), "", nil)
	}
	for i := range servers {
		pids[i] = s.answers(fmt.Sprintf("u%d", i), "")["token"]
	}
	s.hub.Kill()
	s.hub.Restart()
	for i := range servers {
		user := fmt.Sprintf("u%d", i)
		server := s.hub.WaitReady(user, "")
		r := s.hub.Through(s.token(user), http.MethodGet, server.URL+"api", nil)
		if r.Status != http.StatusOK {
			t.Errorf("%s after the restart: %s", user, r.Text())
		}
		if again := s.answers(user, "")["token"]; again != pids[i] {
			t.Errorf("the app of %s is another one", user)
		}
	}
	if n := len(s.containers()); n != servers {
		t.Errorf("%d containers for %d servers", n, servers)
	}
}
