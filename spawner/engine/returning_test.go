package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestSlowWayBack: what comes back of a session that was asked to end is waited for as long as the batch system brings
// it, also when the service is started again meanwhile, and its owner sees so. Who gives it up does not wait.
func TestSlowWayBack(t *testing.T) {
	for _, discarded := range []bool{false, true} {
		inPool(func(t *testing.T, s *distant) {
			s.pool.Linger()
			w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
			s.crew.Hand(w.ID).Change("30 GB of numpy")
			if _, err := s.Stop(t.Context(), alice, w.ID); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				time.Sleep(3 * time.Hour)
				if w, _ = s.Get(t.Context(), alice, w.ID); w.Phase != spawner.Stopping || s.pool.Count(spawnertest.Stop, w.ID) > 0 {
					t.Fatalf("it is %s, and was stopped %d times", w.Phase, s.pool.Count(spawnertest.Stop, w.ID))
				}
				if got := s.Detail(w); got != "it has ended on node1, and what has been changed in it is on its way back" {
					t.Errorf("detail: %q", got)
				}
				s.restart()
				synctest.Wait()
			}
			if discarded {
				if err := s.Remove(t.Context(), alice, w.ID); err != nil {
					t.Fatal(err)
				}
				s.gone(w.ID)
				return
			}
			s.pool.Arrive(w.ID)
			if w = s.reach(w.ID, spawner.Stopped); w.Kept != "sha256:notebook+30 GB of numpy" {
				t.Errorf("kept %q, %+v", w.Kept, w.Outcome)
			}
		})(t)
	}
}

// TestSlowWayBackOfAJob: what it has left is collected when all of it is there.
func TestSlowWayBackOfAJob(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Linger()
		job := s.reach(s.submit(alice, poolJob()).ID, spawner.Running)
		synctest.Wait()
		s.crew.Hand(job.ID).Print("42\n")
		s.crew.Hand(job.ID).Exit(0)
		time.Sleep(time.Hour)
		if w, _ := s.Get(t.Context(), alice, job.ID); w.Phase != spawner.Running || !strings.Contains(s.Detail(w), "what it has left is on its way back") {
			t.Errorf("%s: %q", w.Phase, s.Detail(w))
		}
		s.pool.Arrive(job.ID)
		job = s.reach(job.ID, spawner.Stopped)
		if tail, err := s.Tail(t.Context(), alice, job.ID, 10); err != nil || tail != "42" || job.Outcome.Failed {
			t.Errorf("%q, %v, %+v", tail, err, job.Outcome)
		}
	})(t)
}
