package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// after submits a job to the pool that is to start after others.
func (s *distant) after(c spawner.Caller, targets ...string) spawner.Workload {
	s.t.Helper()
	r := poolJob()
	r.After = targets
	return s.submit(c, r)
}

func runsFor(d time.Duration, code int) func(*spawnertest.Hand) {
	return func(h *spawnertest.Hand) { h.Ready(); time.AfterFunc(d, func() { h.Exit(code) }) }
}

// TestAfter: a job starts once all that it waits for is done, in chains, over a restart, and though what was done is
// removed.
func TestAfter(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.crew.Boot(runsFor(time.Minute, 0))
		first := s.submit(alice, poolJob())
		scan, err := s.SubmitScan(t.Context(), alice, poolJob(), points(3))
		if err != nil {
			t.Fatal(err)
		}
		second := s.after(alice, string(first.ID), scan[0].Scan)
		third := s.after(alice, string(second.ID))
		if _, err := s.Hold(t.Context(), alice, scan[2].ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := "waits for job " + string(first.ID) + " to be done, " + scan[0].Scan + " to be done (0 of 3 points are)"
		if got := s.Detail(second); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := s.steps(third.ID)[0].Message; got != "Waits for job "+string(second.ID)+" to be done" {
			t.Errorf("its first step is %q", got)
		}
		s.reach(first.ID, spawner.Stopped)
		s.reach(scan[1].ID, spawner.Stopped)
		s.restart()
		for _, id := range []spawner.ID{first.ID, scan[1].ID} { // what was done counts, though it is removed
			if err := s.Remove(t.Context(), alice, id); err != nil {
				t.Fatal(err)
			}
			s.gone(id)
		}
		s.reach(scan[0].ID, spawner.Stopped)
		time.Sleep(time.Minute)
		if w, _ := s.Get(t.Context(), alice, second.ID); w.Phase != spawner.Pending || len(w.After) != 1 || s.Detail(w) != "waits for "+scan[0].Scan+" to be done (1 of 2 points are)" {
			t.Errorf("%s after %v: %s", w.Phase, w.After, s.Detail(w))
		}
		if _, err := s.Release(t.Context(), alice, scan[2].ID); err != nil {
			t.Fatal(err)
		}
		end := s.reach(scan[2].ID, spawner.Stopped)
		w := s.reach(third.ID, spawner.Stopped)
		if before := s.reach(second.ID, spawner.Stopped); w.Outcome.Failed || before.Outcome.Failed || w.Up.Before(before.Up.Add(time.Minute)) || before.Up.Before(end.Outcome.At) {
			t.Errorf("%+v, %+v", before.Outcome, w.Outcome)
		}
		late := s.after(alice, string(third.ID)) // done already
		if len(late.After) > 0 || s.reach(late.ID, spawner.Stopped).Outcome.Failed {
			t.Errorf("after what is done: %+v", late)
		}
	})(t)
}

// TestAfterInVain: what waits for what fails, is canceled or removed ends and says so, as does what waits for that.
func TestAfterInVain(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*distant, spawner.Workload)
		says string
	}{
		"failed": {func(s *distant, w spawner.Workload) {
			s.reach(w.ID, spawner.Running)
			synctest.Wait()
			s.crew.Hand(w.ID).Exit(3)
		}, "has failed: the job ended with exit code 3"},
		"canceled": {func(s *distant, w spawner.Workload) { _, _ = s.Stop(s.t.Context(), alice, w.ID) }, "was canceled"},
		"removed":  {func(s *distant, w spawner.Workload) { _ = s.Remove(s.t.Context(), alice, w.ID) }, "was removed before it was done"},
	} {
		t.Run(name, inPool(func(t *testing.T, s *distant) {
			scan, err := s.SubmitScan(t.Context(), alice, poolJob(), points(2))
			if err != nil {
				t.Fatal(err)
			}
			second := s.after(alice, scan[0].Scan)
			if _, err := s.Hold(t.Context(), alice, second.ID); err != nil {
				t.Fatal(err)
			}
			third := s.after(alice, string(second.ID))
			tt.end(s, scan[1])
			w := s.reach(second.ID, spawner.Stopped)
			if o := w.Outcome; o.Cause != spawner.CauseDependency || !strings.Contains(o.Reason, "point 1") || !strings.Contains(o.Reason, tt.says) || s.pool.Runs(w.ID) > 0 {
				t.Errorf("%+v", o)
			}
			w = s.reach(third.ID, spawner.Stopped)
			if o := w.Outcome; o.Cause != spawner.CauseDependency || !strings.Contains(o.Reason, string(second.ID)) {
				t.Errorf("%+v", o)
			}
			if name == "removed" {
				s.gone(scan[1].ID)
				s.retryWithoutTarget(scan[0].ID)
				return
			}
			if _, err := s.SubmitJob(t.Context(), alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}, After: []string{scan[0].Scan}}); !errs.Is(err, errs.Conflict) {
				t.Errorf("after what is lost: %v", err)
			}
			// All are tried again, each after what it waits for.
			s.crew.Boot(runsFor(time.Minute, 0))
			for _, id := range []spawner.ID{scan[1].ID, second.ID, third.ID} {
				if _, err := s.Retry(t.Context(), alice, id, spawner.Retry{}); err != nil {
					t.Fatal(err)
				}
			}
			s.reach(scan[0].ID, spawner.Running)
			synctest.Wait()
			s.crew.Hand(scan[0].ID).Exit(0)
			if o := s.reach(third.ID, spawner.Stopped).Outcome; o.Failed {
				t.Errorf("tried again: %+v", o)
			}
		}))
	}
}

// retryWithoutTarget: what waited for a job that was removed is submitted anew, not tried again.
func (s *distant) retryWithoutTarget(target spawner.ID) {
	s.t.Helper()
	third := s.after(alice, string(target))
	if err := s.Remove(s.t.Context(), alice, target); err != nil {
		s.t.Fatal(err)
	}
	s.gone(target)
	if o := s.reach(third.ID, spawner.Stopped).Outcome; !strings.Contains(o.Remedy, "slipway jobs resubmit") {
		s.t.Errorf("%+v", o)
	}
	_, err := s.Retry(s.t.Context(), alice, third.ID, spawner.Retry{})
	if told, _ := errors.AsType[*errs.Error](err); !errs.Is(err, errs.Conflict) || !strings.Contains(told.Remedy, "slipway jobs resubmit") {
		s.t.Errorf("tried again: %v", err)
	}
}

// TestAfterWhoseItIs: nobody waits for what is not hers, or not there, or no job.
func TestAfterWhoseItIs(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		scan, err := s.SubmitScan(t.Context(), alice, poolJob(), points(2))
		if err != nil {
			t.Fatal(err)
		}
		session := s.startSession(request("bob", "", "one"))
		for _, target := range []string{string(scan[0].ID), scan[0].Scan, "j-none", "scan-none", string(session.ID), ""} {
			r := poolJob()
			r.After = []string{target}
			if _, err := s.SubmitJob(t.Context(), bob, r); !errs.Is(err, errs.NotFound) {
				t.Errorf("after %q: %v", target, err)
			}
		}
		r := poolJob()
		for range 101 {
			r.After = append(r.After, string(scan[0].ID))
		}
		if _, err := s.SubmitJob(t.Context(), alice, r); !errs.Is(err, errs.Invalid) {
			t.Error(err)
		}
	})(t)
}

// TestCrashInChain kills the service at each step of two jobs, of which one starts after the other: each runs once, in
// their order.
func TestCrashInChain(t *testing.T) {
	atEveryStep(t, "remote", func(t *testing.T, f *fuse) {
		s := newDoomed(t, f)
		play := &tries{}
		s.crew.Boot(play.boot)
		ask := func(request string, after ...string) (j spawner.Workload) {
			r := poolJob()
			r.RequestID, r.After = request, after
			s.try(func() (err error) { j, err = s.SubmitJob(s.t.Context(), alice, r); return err })
			return j
		}
		first := ask("first")
		second := ask("second", string(first.ID))
		before, after := s.wait(first.ID, spawner.Stopped), s.wait(second.ID, spawner.Stopped)
		if before.Outcome.Failed || after.Outcome.Failed || !slices.Equal(play.runs, []string{"first", "second"}) {
			t.Errorf("%+v, %+v, runs %q", before.Outcome, after.Outcome, play.runs)
		}
		s.rest()
	})
}

// TestScanAfterScan: thousands after thousands are not looked through for each point.
func TestScanAfterScan(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.quiet()
		s.crew.Boot(runsFor(time.Second, 0))
		n := testenv.Rounds(100, 300)
		first, err := s.SubmitScan(t.Context(), alice, poolJob(), points(n))
		if err != nil {
			t.Fatal(err)
		}
		r := poolJob()
		r.After = []string{first[0].Scan}
		second, err := s.SubmitScan(t.Context(), alice, r, points(n))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range second {
			if w := s.reach(j.ID, spawner.Stopped); w.Outcome.Failed {
				t.Fatalf("%+v", w.Outcome)
			}
		}
	})(t)
}
