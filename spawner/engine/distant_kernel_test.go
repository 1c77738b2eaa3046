package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestRemoteKernel: nothing that a kernel has changed on another host is fetched, however it ends, and its agent is not
// asked for it.
func TestRemoteKernel(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		start := func(launch string) spawner.Workload {
			r := kernelRequest(launch)
			r.Backend, r.Spec.Life.Idle = "pool", time.Hour
			w, err := s.StartKernel(t.Context(), alice, r)
			if err != nil {
				t.Fatal(err)
			}
			return s.reach(w.ID, spawner.Running)
		}
		s.crew.Parting(func(_ context.Context, h *spawnertest.Hand) error {
			t.Error("an agent is asked to end")
			h.Part()
			return nil
		})
		shut, idle, evicted := start("one"), start("two"), start("three")
		for _, w := range []spawner.Workload{shut, idle, evicted} {
			s.crew.Hand(w.ID).Change("much")
			s.crew.Hand(w.ID).Act(control.Activity{Asked: true, Kernels: 1, Quiet: -1})
		}
		if _, err := s.Stop(t.Context(), alice, shut.ID); err != nil {
			t.Fatal(err)
		}
		s.gone(shut.ID)
		s.pool.Evict(evicted.ID, "a job of higher priority", true)
		s.again(evicted.ID, 1)
		told := messages(s.events(evicted.ID, "three"))
		if all := strings.Join(told, "\n"); !strings.Contains(all, "(a job of higher priority): it begins anew; what it had in memory is lost") {
			t.Errorf("of the eviction is told: %s", all)
		}
		<-time.After(time.Hour + time.Minute)
		if w := s.reach(idle.ID, spawner.Stopped); w.Outcome == nil || !w.Outcome.Expired {
			t.Errorf("idle for an hour it is %+v", w.Outcome)
		}
		lost := start("four")
		s.pool.Die(lost.ID, spawner.Observation{ExitCode: 137, Host: "node1", Reason: "its container was killed", Remedy: "start it again"})
		if w := s.reach(lost.ID, spawner.Stopped); w.Outcome.Reason != "its container was killed" || w.Outcome.Remedy != "start another, and run what you need again" {
			t.Errorf("of one that was killed is told: %+v", w.Outcome)
		}
		if len(s.kept) > 0 {
			t.Errorf("kept are %v", s.kept)
		}
	})(t)
}
