package engine_test

import (
	"slices"
	"testing"
	"time"

	"slipway/spawner"
)

// TestShortJobTellsItsHost: also of a job that no look has shown running its owner reads where it ran.
func TestShortJobTellsItsHost(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Fill(true)
		job := s.submit(alice, poolJob())
		<-time.After(time.Minute + time.Second) // between two looks
		s.pool.Dispatch(job.ID)
		s.pool.Exit(job.ID, 0)
		if job = s.reach(job.ID, spawner.Stopped); job.Host != "node1" {
			t.Errorf("it ran on %q", job.Host)
		}
		if !slices.ContainsFunc(s.events(job.ID, job.Launch), func(e spawner.Event) bool { return e.Message == "It ran on node1" }) {
			t.Error("its steps do not tell")
		}
	})(t)
}
