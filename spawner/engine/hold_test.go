package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestHoldAndRelease on this host and on others: a job that waits is held, also where it is queued elsewhere, and goes
// on when released.
func TestHoldAndRelease(t *testing.T) {
	for _, backend := range []string{"local", "pool"} {
		for _, restarted := range []bool{false, true} {
			t.Run(backend, inPool(func(t *testing.T, s *distant) {
				s.pool.Fill(true)
				first := s.submit(alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}, Backend: backend})
				job := s.submit(alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}, Backend: backend}) // local runs one at a time
				time.Sleep(time.Minute)
				if _, err := s.Hold(t.Context(), bob, job.ID); !errs.Is(err, errs.NotFound) {
					t.Errorf("held by another: %v", err)
				}
				w, err := s.Hold(t.Context(), alice, job.ID)
				if err != nil || !w.Held {
					t.Fatalf("%+v, %v", w, err)
				}
				if restarted {
					s.restart()
				}
				s.reach(job.ID, spawner.Pending)
				s.pool.Fill(false)
				s.finish(first.ID)
				time.Sleep(time.Hour)
				w, _ = s.Get(t.Context(), alice, job.ID)
				if w.Phase != spawner.Pending || s.Queue(w).Place != 0 || s.Detail(w) != "its owner has it wait" || s.pool.Runs(job.ID)+s.jobs.Runs(job.ID) > 0 {
					t.Fatalf("%s, %s, %d runs", w.Phase, s.Detail(w), s.pool.Runs(job.ID)+s.jobs.Runs(job.ID))
				}
				if why, err := s.Why(t.Context(), alice, job.ID); err != nil || why.Remedy != "release it" {
					t.Errorf("why: %+v, %v", why, err)
				}
				if _, err := s.Release(t.Context(), alice, job.ID); err != nil {
					t.Fatal(err)
				}
				s.reach(job.ID, spawner.Running)
				s.finish(job.ID)
			}))
		}
	}
}

// finish ends a job well.
func (s *distant) finish(id spawner.ID) {
	s.t.Helper()
	s.reach(id, spawner.Running)
	synctest.Wait()
	s.crew.Hand(id).Exit(0)
	if w := s.reach(id, spawner.Stopped); w.Outcome.Failed {
		s.t.Errorf("%+v", w.Outcome)
	}
}

// TestReleasedBeforeItIsBack: who changes her mind while a job is being taken back has it go on.
func TestReleasedBeforeItIsBack(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Fill(true)
		job := s.submit(alice, poolJob())
		time.Sleep(time.Minute)
		s.pool.Inject(spawnertest.Fault{Op: spawnertest.Withdraw, Step: spawnertest.Before, Times: 3})
		if _, err := s.Hold(t.Context(), alice, job.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(job.ID, spawner.Stopping)
		if w, err := s.Release(t.Context(), alice, job.ID); err != nil || w.Held {
			t.Fatalf("%+v, %v", w, err)
		}
		s.pool.Fill(false)
		s.finish(job.ID)
	})(t)
}

// TestHoldMeetsItsStart: a job that is to be held, and has begun since the last look at it, is not ended, and so does
// not run twice.
func TestHoldMeetsItsStart(t *testing.T) {
	for name, ends := range map[string]bool{"runs": false, "has ended": true} {
		t.Run(name, inPool(func(t *testing.T, s *distant) {
			s.pool.Fill(true)
			job := s.submit(alice, poolJob())
			time.Sleep(time.Minute)
			s.pool.Inject(spawnertest.Fault{Op: spawnertest.Withdraw, Step: spawnertest.Before, Times: 2})
			if w, err := s.Hold(t.Context(), alice, job.ID); err != nil || !w.Held {
				t.Fatalf("%+v, %v", w, err)
			}
			s.pool.Dispatch(job.ID)
			if ends {
				s.crew.Hand(job.ID).Exit(0)
			} else {
				s.finish(job.ID)
			}
			job = s.reach(job.ID, spawner.Stopped)
			if job.Moves != 0 || job.Held || job.Outcome.Failed || s.pool.Count(spawnertest.Start, job.ID) != 1 {
				t.Errorf("it was started %d times, and is %+v", s.pool.Count(spawnertest.Start, job.ID), job)
			}
		}))
	}
}

// TestHoldOnAnOldLook: nor is one that has begun since the look on which it is taken back.
func TestHoldOnAnOldLook(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.pool.Fill(true)
		job := s.submit(alice, poolJob())
		time.Sleep(time.Minute + time.Second) // between two looks
		shown := make(chan struct{})
		s.pool.Inject(spawnertest.Fault{Op: spawnertest.Observe, ID: job.ID, Step: spawnertest.After, Hold: shown})
		if _, err := s.Hold(t.Context(), alice, job.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.pool.Dispatch(job.ID)
		close(shown)
		s.finish(job.ID)
		if job, _ = s.Get(t.Context(), alice, job.ID); job.Moves != 0 || job.Held || s.pool.Count(spawnertest.Withdraw, job.ID) != 1 {
			t.Errorf("%+v", job)
		}
	})(t)
}

// TestHoldWhileItIsSubmitted: who has a job wait need not wait for a batch system that takes it, or takes nothing.
func TestHoldWhileItIsSubmitted(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		mend := s.pool.Inject(spawnertest.Fault{Op: spawnertest.Start, Step: spawnertest.Before, Times: spawnertest.Always})
		down := s.submit(alice, poolJob())
		time.Sleep(time.Hour)
		if w, err := s.Hold(t.Context(), alice, down.ID); err != nil || !w.Held {
			t.Fatalf("%+v, %v", w, err)
		}
		s.reach(down.ID, spawner.Pending)
		mend()
		job := s.submit(alice, poolJob())
		time.Sleep(500 * time.Millisecond) // it takes a second
		if _, err := s.Hold(t.Context(), alice, job.ID); err != nil {
			t.Fatal(err)
		}
		for _, id := range []spawner.ID{job.ID, down.ID} {
			if w := s.reach(id, spawner.Pending); !w.Held || s.pool.Runs(id) > 0 {
				t.Errorf("%+v", w)
			}
			if _, err := s.Release(t.Context(), alice, id); err != nil {
				t.Fatal(err)
			}
			s.finish(id)
		}
	})(t)
}

// TestHeldJobIsNoObstacle: others in line go first, and it can be canceled and removed.
func TestHeldJobIsNoObstacle(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		first, held, third := s.submit(alice, simpleJob()), s.submit(alice, simpleJob()), s.submit(bob, simpleJob())
		if _, err := s.Hold(t.Context(), alice, held.ID); err != nil {
			t.Fatal(err)
		}
		s.finish(first.ID)
		s.finish(third.ID)
		if w := s.stop(held.ID); !w.Outcome.Canceled {
			t.Errorf("%+v", w.Outcome)
		}
		if err := s.Remove(t.Context(), alice, held.ID); err != nil {
			t.Fatal(err)
		}
		s.gone(held.ID)
	})(t)
}

// TestRequeue: what runs is ended, and begins anew; nothing of the run before is left.
func TestRequeue(t *testing.T) {
	for _, backend := range []string{"local", "pool"} {
		t.Run(backend, inPool(func(t *testing.T, s *distant) {
			job := s.submit(alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}, Backend: backend})
			s.reach(job.ID, spawner.Running)
			synctest.Wait()
			s.crew.Hand(job.ID).Print("first\n")
			synctest.Wait()
			if _, err := s.Hold(t.Context(), alice, job.ID); !errs.Is(err, errs.Conflict) {
				t.Errorf("a running one is held: %v", err)
			}
			if _, err := s.Requeue(t.Context(), alice, job.ID); err != nil {
				t.Fatal(err)
			}
			w := s.again(job.ID, 1)
			s.crew.Hand(job.ID).Print("second\n")
			s.finish(job.ID)
			if tail, err := s.Tail(t.Context(), alice, job.ID, 10); err != nil || tail != "second" || w.Evictions != 0 {
				t.Errorf("it printed %q, %v, evicted %d times", tail, err, w.Evictions)
			}
		}))
	}
}

// TestRequeuedAndCanceled: of what is canceled while it waits for its next run, neither the wait nor the run before
// counts.
func TestRequeuedAndCanceled(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(func(h *spawnertest.Hand) {
			h.Ready()
			h.Tell(control.Progress{Done: 3, Of: 4})
		})
		job := s.reach(s.submit(alice, simpleJob()).ID, spawner.Running)
		urgent := simpleJob()
		urgent.Priority = 10
		next := s.submit(alice, urgent) // has the only place then
		synctest.Wait()
		if _, err := s.Requeue(t.Context(), alice, job.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(next.ID, spawner.Running)
		if w, _ := s.Get(t.Context(), alice, job.ID); w.Phase != spawner.Pending || s.Progress(job.ID) != nil {
			t.Errorf("it is %s, as far as %+v", w.Phase, s.Progress(job.ID))
		}
		time.Sleep(time.Hour)
		if _, err := s.Stop(t.Context(), alice, job.ID); err != nil {
			t.Fatal(err)
		}
		if o := s.reach(job.ID, spawner.Stopped).Outcome; o.Wall != 0 || o.Progress != nil {
			t.Errorf("it has run for %g s, as far as %+v", o.Wall, o.Progress)
		}
	})(t)
}

// TestReorderRefused names what is wrong.
func TestReorderRefused(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		session := s.reach(s.startSession(request("alice", "", "one")).ID, spawner.Running)
		done, runs := s.submit(alice, simpleJob()), s.submit(alice, simpleJob())
		s.finish(done.ID)
		s.reach(runs.ID, spawner.Running)
		waits := s.submit(alice, simpleJob())
		for _, tt := range []struct {
			name string
			do   func() (spawner.Workload, error)
			kind errs.Kind
			text string
		}{
			{"hold a session", func() (spawner.Workload, error) { return s.Hold(t.Context(), alice, session.ID) }, errs.Invalid, "is a session"},
			{"requeue one that has ended", func() (spawner.Workload, error) { return s.Requeue(t.Context(), alice, done.ID) }, errs.Conflict, "has ended"},
			{"release one that is not held", func() (spawner.Workload, error) { return s.Release(t.Context(), alice, runs.ID) }, errs.Conflict, "is not held"},
			{"requeue one that waits", func() (spawner.Workload, error) { return s.Requeue(t.Context(), alice, waits.ID) }, errs.Conflict, "waits in line"},
			{"hold what is not there", func() (spawner.Workload, error) { return s.Hold(t.Context(), alice, "j-none") }, errs.NotFound, "no session or job"},
		} {
			if _, err := tt.do(); !errs.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	})(t)
}
