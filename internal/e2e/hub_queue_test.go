package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"slipway/internal/hubtest"
)

// TestQueueBehindAHub fills a site: who comes next waits, is told the place in line on the Hub's progress page, may
// give up, which frees the place, and starts when there is room.
func TestQueueBehindAHub(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{hubtest.Slipway: "profile", hubtest.Outpost: "flavor"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := hubOptions{major: 6, spawner: name, cpus: 1}
			if name == hubtest.Outpost {
				o.config = "c.OutpostSpawner.custom_poll_interval = 2000\nc.Spawner.http_timeout = 120\ndel c.Spawner.poll_interval\n"
			}
			s := newHubSite(t, o)
			s.waitsInLine(map[string]any{option: "whole"})
		})
	}
}

func (s *hubSite) waitsInLine(whole map[string]any) {
	s.startOnly("alice", "", whole)
	s.hub.WaitReady("alice", "")
	for _, user := range []string{"bob", "carol"} {
		s.startOnly(user, "", whole)
		s.phaseOf(user, "pending")
	}
	bob := s.sessionOf("bob", "")
	if bob.Waiting == "" {
		s.t.Errorf("bob waits and is not told for what: %+v", bob)
	}
	bobs := s.hub.Follow("bob", "")
	if r := s.as("bob", http.MethodPost, "/sessions/"+bob.ID+"/stop", nil); r.status != http.StatusOK {
		s.t.Fatalf("bob gives up: %d %s", r.status, r.body)
	}
	events := bobs()
	if text := fmt.Sprintf("%+v", events); !events[len(events)-1].Failed || !strings.Contains(text, "stopped") && !strings.Contains(text, "cancel") {
		s.t.Errorf("bob gave up and is told %s", text)
	}
	s.gone("bob", "")
	if got := s.containers(); len(got) != 1 {
		s.t.Errorf("%d containers where one has room", len(got))
	}
	carols := s.hub.Follow("carol", "")
	s.stop("alice", "")
	events = carols()
	if text := fmt.Sprintf("%+v", events); !events[len(events)-1].Ready || !strings.Contains(text, "in line") {
		s.t.Errorf("carol is told %s", text)
	}
	if w := s.sessionOf("carol", ""); w.Phase != "running" {
		s.t.Errorf("carol's session: %+v", w)
	}
}
