package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"slipway/internal/hubtest"
)

// eachMajor runs a test beside itself with both versions of the Hub.
func eachMajor(t *testing.T, test func(t *testing.T, major int)) {
	for _, major := range []int{5, 6} {
		t.Run(fmt.Sprintf("Hub%d", major), func(t *testing.T) {
			t.Parallel()
			test(t, major)
		})
	}
}

// TestSlipwaySpawner drives our Spawner in a real Hub through its API, as clients of the Hub do.
func TestSlipwaySpawner(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, major int) {
		s := newHubSite(t, hubOptions{major: major, spawner: hubtest.Slipway, service: hubKernels})
		s.stepsOfAStart()
		s.kernelOfAHubsToken(t)
		s.namesOfServers(major)
		s.failuresOfStarts()
		s.wholeJupyter()
	})
}

// stepsOfAStart wants the service's own events on the Hub's progress page, up to the last.
func (s *hubSite) stepsOfAStart() {
	s.startOnly("slow.eve", "", nil)
	events := s.hub.Progress("slow.eve", "")
	if len(events) < 4 || !events[len(events)-1].Ready {
		s.t.Errorf("the events of a start: %+v", events)
	}
	for i := 1; i < len(events); i++ {
		if events[i].Progress < events[i-1].Progress {
			s.t.Errorf("progress goes back: %+v", events)
		}
	}
	s.stop("slow.eve", "")
}

// namesOfServers starts servers of all kinds of names at once: each is its own, tells of its start, answers and stops.
func (s *hubSite) namesOfServers(major int) {
	servers := []struct{ user, name string }{
		{"alice", ""}, {"alice", "lab"}, {"bob", "lab"}, {"has@at", ""}, {"user--foo", ""}, {"user", "foo"}, {"физик", ""}, {"a.b+c", "a-b"}, {"Upper", ""},
	}
	if major == 5 { // version 6 has a rule for the names of servers
		servers = append(servers, []struct{ user, name string }{{"alice", "Mein Server"}, {"alice", "käse--@x"}}...)
	}
	for i, v := range servers {
		// No body, an empty object, and options: all start the default profile.
		s.startOnly(v.user, v.name, []any{nil, "{}", map[string]any{"profile": "small"}}[i%3])
	}
	pids := map[any]string{}
	for _, v := range servers {
		facts := s.answers(v.user, v.name)
		w := s.sessionOf(v.user, v.name)
		if w.Phase != "running" || w.ID == "" {
			s.t.Errorf("the session %q of %s: %+v", v.name, v.user, w)
		}
		if id := fmt.Sprint(facts["host"]); pids[facts["token"]] != "" {
			s.t.Errorf("%q of %s and %s are one app (%s)", v.name, v.user, pids[facts["token"]], id)
		}
		pids[facts["token"]] = v.user + "/" + v.name
	}
	if n := len(s.containers()); n != len(servers) {
		s.t.Errorf("%d containers for %d servers", n, len(servers))
	}
	s.stopAll(servers)
	if left := s.containers(); len(left) > 0 {
		s.t.Errorf("containers after all stops: %v", left)
	}
}

func (s *hubSite) stopAll(servers []struct{ user, name string }) {
	s.t.Helper()
	var stops sync.WaitGroup
	for _, v := range servers {
		stops.Go(func() { s.hub.StopServer(v.user, v.name) })
	}
	stops.Wait()
	for _, v := range servers {
		s.gone(v.user, v.name)
	}
}

// failuresOfStarts wants the reason, the remedy and the end of the log where the Hub shows why a server does not start.
func (s *hubSite) failuresOfStarts() {
	for _, tt := range []struct {
		user, about string
		options     any
		want, never []string
	}{
		{"crash.one", "an app that ends", nil, []string{"7", "the reason of it", "60"}, []string{"\n5\n"}},
		{"carol", "an unknown profile", map[string]any{"profile": "huge"}, []string{"profile", "huge", "small"}, nil},
		{"carol", "an unknown option", map[string]any{"gpus": 4}, []string{"gpus"}, nil},
		{"carol", "a wrong type", map[string]any{"memory": map[string]any{"a": 1}}, []string{"memory"}, nil},
		{"carol", "an image that is not there", map[string]any{"profile": "absent"}, []string{"slipway/no-such-image:1"}, nil},
	} {
		s.startOnly(tt.user, "", tt.options)
		text := s.failed(tt.user, "")
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				s.t.Errorf("%s: %q lacks %q", tt.about, text, want)
			}
		}
		for _, never := range tt.never {
			if strings.Contains(text, never) {
				s.t.Errorf("%s: %q holds %q", tt.about, text, never)
			}
		}
		s.gone(tt.user, "")
	}
	page := s.hub.Browse("crash.one").Get("/hub/spawn-pending/crash.one")
	if page.Status != http.StatusFailedDependency || !strings.Contains(string(page.Body), "the reason of it") {
		s.t.Errorf("the page of a failed start: %s", page.Text())
	}
	if left := s.containers(); len(left) > 0 {
		s.t.Errorf("containers of starts that failed: %v", left)
	}
}

// wholeJupyter starts the image's own JupyterLab, as VS Code does, lets a browser in by the Hub's OAuth, and notices
// when the container dies.
func (s *hubSite) wholeJupyter() {
	at := s.extensionOfVSCode("real.dora")
	dora := s.hub.Browse("real.dora")
	if page := dora.Get(at + "lab"); page.Status != http.StatusOK || !strings.Contains(string(page.Body), "JupyterLab") {
		s.t.Errorf("JupyterLab in a browser: %s", page.Text())
	}
	if page := s.hub.Browse("mallory").Get(at + "lab"); page.Status != http.StatusForbidden {
		s.t.Errorf("another user's JupyterLab: %d", page.Status)
	}
	docker(s.t, "kill", s.containers()[0])
	s.gone("real.dora", "")
}
