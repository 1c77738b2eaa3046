package engine_test

import (
	"fmt"
	"testing"
	"time"

	"slipway/spawner"
)

// TestManyStrangers: where many have no record, one resync ends few of them, and all are ended in time. Sessions that
// are kept hold up none.
func TestManyStrangers(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.reach(s.startSession(request("alice", "", "one")).ID, spawner.Running) // there are records
		const jobs = 250
		for n := range jobs {
			s.jobs.Plant(spawner.ID(fmt.Sprintf("j-%03d", n)), spawner.Observation{Existence: spawner.Up})
			s.sessions.Plant(spawner.ID(fmt.Sprintf("s-%03d", n)), spawner.Observation{Existence: spawner.Exited})
		}
		left := func() int {
			list, err := s.jobs.List(t.Context())
			if err != nil {
				t.Error(err)
			}
			return len(list)
		}
		seen := []int{jobs}
		for begun := time.Now(); left() > 0 && time.Since(begun) < time.Hour; <-time.After(time.Second) {
			if n := left(); n != seen[len(seen)-1] {
				seen = append(seen, n)
			}
		}
		if len(seen) < 3 || left() > 0 {
			t.Errorf("of the jobs there were %v, and %d are left", seen, left())
		}
		if list, err := s.sessions.List(t.Context()); err != nil || len(list) != jobs+1 {
			t.Errorf("%d sessions are there, %v", len(list), err)
		}
	})(t)
}
