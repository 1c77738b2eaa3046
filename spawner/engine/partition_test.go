package engine_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// blind takes the way to a workload's agent away and has the pool answer nothing, for a time.
func (s *distant) blind(id spawner.ID, d time.Duration) {
	s.crew.Cut(id)
	var withdraw []func()
	for _, op := range []spawnertest.Op{spawnertest.Observe, spawnertest.List, spawnertest.Start, spawnertest.Stop, spawnertest.StagedOutput} {
		withdraw = append(withdraw, s.pool.Inject(spawnertest.Fault{Op: op, Times: spawnertest.Always}))
	}
	time.Sleep(d)
	for _, f := range withdraw {
		f()
	}
}

// alone looks every second whether there is at most one run of all that has one place to share.
func (s *distant) alone() (stop func()) {
	ended := make(chan struct{})
	go func() {
		for {
			up := 0
			for _, seen := range s.pool.Held() {
				if seen == spawner.Up {
					up++
				}
			}
			if up > 1 {
				s.t.Errorf("%d run where one may", up)
			}
			select {
			case <-ended:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return func() { close(ended); synctest.Wait() }
}

// TestPartitionOfFiveMinutes: nothing that nobody sees is given up, started again or asked for twice; when it heals the
// same run goes on.
func TestPartitionOfFiveMinutes(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		inPool(func(t *testing.T, s *distant) {
			session := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
			job := s.reach(s.submit(alice, poolJob()).ID, spawner.Running)
			s.crew.Cut(job.ID)
			if restarted {
				time.AfterFunc(time.Minute, s.restart)
			}
			s.blind(session.ID, 5*time.Minute)
			if got := s.detailOf(session.ID); got != "it runs on node1, which does not reach the service now" {
				t.Errorf("its user reads %q", got)
			}
			s.crew.Join(job.ID)
			s.crew.Join(session.ID)
			time.Sleep(time.Minute)
			if got := s.detailOf(session.ID) + s.detailOf(job.ID); got != "" {
				t.Errorf("its user reads %q", got)
			}
			for _, was := range []spawner.Workload{session, job} {
				now, err := s.Get(t.Context(), admin, was.ID)
				if err != nil || now.Phase != spawner.Running || now.Run() != was.Run() || !now.Up.Equal(was.Up) || now.Host != was.Host {
					t.Errorf("it is %s of run %s on %s since %s: %v", now.Phase, now.Run(), now.Host, now.Up, err)
				}
				if h := s.crew.Hand(was.ID); h.Launches() != 1 || s.pool.Count(spawnertest.Start, was.ID) != 1 || s.pool.Count(spawnertest.Stop, was.ID) > 0 {
					t.Errorf("%d launches; calls %v", h.Launches(), s.pool.Calls())
				}
			}
			s.crew.Hand(session.ID).Change("numpy")
			if w := s.stop(session.ID); w.Kept != "sha256:notebook+numpy" || w.Outcome.Failed {
				t.Errorf("kept %q, %+v", w.Kept, w.Outcome)
			}
		})(t)
	}
}

// TestPartitionBeyondTheLease: the batch system gives the place up. What ran begins anew, once the first run is known
// to have ended and not before; its user is told what is lost, and the one place there is has one owner at a time.
func TestPartitionBeyondTheLease(t *testing.T) {
	for _, job := range []bool{false, true} {
		inPool(func(t *testing.T, s *distant) {
			s.kill()
			s.config.Capacity["pool"] = spawner.Capacity{Count: 1}
			s.start()
			defer s.alone()()
			var w spawner.Workload
			if job {
				w = s.submit(alice, poolJob())
			} else {
				w = s.startSession(poolRequest("alice", "one"))
			}
			s.reach(w.ID, spawner.Running)
			other := s.submit(alice, poolJob())
			s.crew.Hand(w.ID).Change("numpy")
			s.blind(w.ID, 25*time.Minute)
			time.Sleep(5 * time.Minute) // the pool answers again, and has it running still
			if got := s.pool.Count(spawnertest.Start, w.ID); got != 1 || s.phaseOf(w.ID) != spawner.Running || s.phaseOf(other.ID) != spawner.Pending {
				t.Errorf("asked for %d times while the first may run; it is %s, the other %s", got, s.phaseOf(w.ID), s.phaseOf(other.ID))
			}
			s.pool.Evict(w.ID, "its lease has run out", false)
			s.crew.Join(w.ID)
			w = s.again(w.ID, 1)
			told := "It was evicted from node1 (its lease has run out): it begins anew"
			if !job {
				told += "; what ran in it is lost, and what was changed outside your home if it does not come back"
				if got := messages(s.events(w.ID, "")); !slices.Contains(got, told) || !slices.Contains(got, "What was changed in it since it started has not come back") {
					t.Errorf("told %q", got)
				}
			}
			if w.Host != "node2" || w.Evictions != 1 || s.pool.Count(spawnertest.Start, w.ID) != 2 {
				t.Errorf("on %s, evicted %d times", w.Host, w.Evictions)
			}
			s.stop(w.ID)
			if got := messages(s.events(w.ID, "")); job && !slices.Contains(got, told) {
				t.Errorf("told %q", got)
			}
			s.reach(other.ID, spawner.Running)
		})(t)
	}
}

// TestHostThatStandsStill: whoever looks at a session whose agent is connected and says nothing reads so, until it says
// something.
func TestHostThatStandsStill(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		w := s.reach(s.startSession(poolRequest("alice", "one")).ID, spawner.Running)
		hand := s.crew.Hand(w.ID)
		hand.Freeze(true)
		time.Sleep(3 * time.Minute)
		if got := s.detailOf(w.ID); !strings.HasPrefix(got, "no word from node1 for ") {
			t.Errorf("its user reads %q", got)
		}
		hand.Freeze(false)
		time.Sleep(2 * time.Minute)
		if got := s.detailOf(w.ID); got != "" {
			t.Errorf("when it is back its user reads %q", got)
		}
	})(t)
}
