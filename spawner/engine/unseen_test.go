package engine_test

import (
	"testing"
	"time"

	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestEndedUnseen: a job that is canceled while nobody knows what has become of it is ended all the same, after a while
// and not without end. A session is not: what was changed in it might come back.
func TestEndedUnseen(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		job := s.reach(s.submit(alice, poolJob()).ID, spawner.Running)
		session := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
		s.crew.Hand(session.ID).Change("numpy")
		s.kill()
		mend := s.pool.Inject(spawnertest.Fault{Op: spawnertest.Observe, Step: spawnertest.Before, Times: spawnertest.Always})
		down := s.pool.Inject(spawnertest.Fault{Op: spawnertest.Stop, Step: spawnertest.Before, Times: spawnertest.Always})
		s.start()
		<-time.After(time.Minute)
		for _, id := range []spawner.ID{job.ID, session.ID} {
			if _, err := s.Stop(t.Context(), alice, id); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(10*time.Minute + 30*time.Second)
		if asked := s.pool.Count(spawnertest.Stop, job.ID); asked < 8 || asked > 10 {
			t.Errorf("asked %d times in 10 minutes", asked)
		}
		down()
		<-time.After(2 * time.Minute)
		if o := s.pool.Held()[job.ID]; o == spawner.Up || s.phaseOf(job.ID) != spawner.Stopping {
			t.Errorf("the job is %s and %s", s.phaseOf(job.ID), o)
		}
		if got := s.Detail(session); s.pool.Count(spawnertest.Stop, session.ID) > 0 || got != "pool does not tell now what has become of it" {
			t.Errorf("the session was ended: %q", got)
		}
		mend()
		s.reach(job.ID, spawner.Stopped)
		if w := s.reach(session.ID, spawner.Stopped); w.Kept != "sha256:notebook+numpy" {
			t.Errorf("kept %q", w.Kept)
		}
	})(t)
}
