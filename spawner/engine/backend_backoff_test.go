package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestTakesNoMore: what a batch system does not take now waits in line, in order, until it does; nobody else waits for
// it, and it is not asked without end.
func TestTakesNoMore(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Limit(3)
		jobs, err := s.SubmitScan(t.Context(), alice, poolJob(), points(30))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if running := s.runningOf(jobs); running != 3 {
			t.Errorf("%d run of 3 that may", running)
		}
		asked := 0
		for _, c := range s.pool.Calls() {
			if c.Op == spawnertest.Start {
				asked++
			}
		}
		if asked < 35 || asked > 80 {
			t.Errorf("asked %d times in an hour", asked)
		}
		other := s.reach(s.submit(bob, poolJob()).ID, spawner.Running)
		const words = "pool takes no more now: you have 3 of the 3 jobs that one user may have"
		for _, j := range jobs {
			w, _ := s.Get(t.Context(), alice, j.ID)
			why, err := s.Why(t.Context(), alice, j.ID)
			if w.Phase == spawner.Running {
				continue
			}
			if w.Outcome != nil || err != nil || !strings.HasSuffix(s.Detail(w), words) || why.Summary != "it waits on pool: "+words {
				t.Fatalf("%s: %q, %q, %v, %+v", w.Phase, s.Detail(w), why.Summary, err, w.Outcome)
			}
		}
		s.restart()
		for left := len(jobs); left > 0; left-- {
			begun := time.Now()
			first := s.awaitOneOf(jobs)
			if waited := time.Since(begun); waited > 30*time.Second {
				t.Errorf("the next began after %s", waited)
			}
			s.crew.Hand(first.ID).Exit(0)
			s.reach(first.ID, spawner.Stopped)
		}
		s.crew.Hand(other.ID).Exit(0)
	})(t)
}

// runningOf counts those that run.
func (s *distant) runningOf(jobs []spawner.Workload) (n int) {
	synctest.Wait()
	for _, j := range jobs {
		if s.phaseOf(j.ID) == spawner.Running {
			n++
		}
	}
	return n
}

// awaitOneOf waits until one of them runs.
func (s *distant) awaitOneOf(jobs []spawner.Workload) spawner.Workload {
	s.t.Helper()
	for range 600 {
		for _, j := range jobs {
			if w, err := s.Get(s.t.Context(), admin, j.ID); err == nil && w.Phase == spawner.Running {
				return w
			}
		}
		time.Sleep(time.Second)
	}
	s.t.Fatal("none runs")
	return spawner.Workload{}
}

// TestSessionThatIsNotTakenYet keeps its secrets while it waits, and can be stopped meanwhile.
func TestSessionThatIsNotTakenYet(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		withdraw := s.pool.Inject(spawnertest.Fault{
			Op: spawnertest.Start, Step: spawnertest.Before, Times: spawnertest.Always,
			Err: errs.New(errs.NoCapacity, "its queue is full").With("try again later"),
		})
		w := s.startSession(poolRequest("alice", "one"))
		time.Sleep(time.Hour)
		if w, _ = s.Get(t.Context(), alice, w.ID); w.Outcome != nil || s.Detail(w) != "Waiting for room, next in line: pool takes no more now: its queue is full" {
			t.Fatalf("%s: %q, %+v", w.Phase, s.Detail(w), w.Outcome)
		}
		if asked := s.pool.Count(spawnertest.Start, w.ID); asked < 12 || asked > 25 {
			t.Errorf("asked %d times in an hour", asked)
		}
		if w = s.stop(w.ID); !w.Outcome.Canceled || len(s.pool.Held()) > 0 {
			t.Errorf("%+v, in the pool %v", w.Outcome, s.pool.Held())
		}
		w = s.startSession(poolRequest("alice", "two"))
		time.Sleep(time.Hour)
		s.restart()
		time.Sleep(time.Hour)
		withdraw()
		if w = s.reach(w.ID, spawner.Running); s.crew.Hand(w.ID).App().Env["JUPYTERHUB_API_TOKEN"] != "hunter2-two" {
			t.Error("its secrets are lost")
		}
	})(t)
}
