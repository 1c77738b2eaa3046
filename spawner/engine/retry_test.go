package engine_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// tries plays a payload that prints and leaves which try it is, and fails as often as it is told. It notes each run
// that there was.
type tries struct {
	mu    sync.Mutex
	fails int
	runs  []string
}

func (p *tries) boot(h *spawnertest.Hand) {
	p.mu.Lock()
	p.runs = append(p.runs, h.App().Launch)
	n := len(p.runs)
	p.mu.Unlock()
	h.Ready()
	h.Print(strings.Repeat("x", n) + "\n")
	h.Leave("out", strings.Repeat("x", n))
	time.AfterFunc(time.Second, func() {
		if n <= p.fails {
			h.Exit(3)
		} else {
			h.Exit(0)
		}
	})
}

// once looks whether no run has begun twice, and none that was not counted.
func (p *tries) once(t *testing.T, w spawner.Workload) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if runs := slices.Compact(slices.Sorted(slices.Values(p.runs))); len(runs) != len(p.runs) || len(runs) > w.Attempt+1+w.Moves {
		t.Errorf("the runs were %q, in %d tries", p.runs, w.Attempt+1)
	}
	if len(w.Attempts) != w.Attempt {
		t.Errorf("of %d tries before there are %d outcomes", w.Attempt, len(w.Attempts))
	}
}

// TestTriesAgain: a job that fails is tried again as often as it may, with its inputs; what the try before has left is
// dropped, and who follows goes on with the new one.
func TestTriesAgain(t *testing.T) {
	life := func(t *testing.T, s *distant, backend string) {
		play := &tries{fails: 2}
		s.crew.Boot(play.boot)
		r := spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}, JobSpec: spawner.JobSpec{Retries: 2}}, Backend: backend, Files: map[string][]byte{"in": []byte("input")}}
		j := s.submit(alice, r)
		log, err := s.Log(t.Context(), alice, j.ID, 0, true)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		w := s.reach(j.ID, spawner.Stopped)
		if w.Outcome.Failed || w.Attempt != 2 || len(w.Attempts) != 2 || w.Attempts[0].ExitCode != 3 || w.Attempts[0].Tail != "" {
			t.Errorf("attempt %d after %+v: %+v", w.Attempt, w.Attempts, w.Outcome)
		}
		if text, _ := io.ReadAll(log); !strings.HasSuffix(string(text), "xxx\n") {
			t.Errorf("who follows reads %q", text)
		}
		if out := s.readFile(j.ID, "out"); out != "xxx" {
			t.Errorf("left: %q", out)
		}
		if tail, err := s.Tail(t.Context(), alice, j.ID, 10); err != nil || tail != "xxx" {
			t.Errorf("the log is %q, %v", tail, err)
		}
		if text := messages(s.events(j.ID, "")); !slices.Contains(text, "Try 3 of 3: the one before failed: the job ended with exit code 3") {
			t.Errorf("%q", text)
		}
		play.once(t, w)
	}
	for _, backend := range []string{"local", "pool"} {
		t.Run(backend, inPool(func(t *testing.T, s *distant) { life(t, s, backend) }))
	}
}

// TestTriesAreCounted: after the last one it has failed; one that was canceled meanwhile is not tried again.
func TestTriesAreCounted(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		play := &tries{fails: 100}
		s.crew.Boot(play.boot)
		r := simpleJob()
		r.Retries = 1
		w := s.reach(s.submit(alice, r).ID, spawner.Stopped)
		if !w.Outcome.Failed || w.Attempt != 1 {
			t.Errorf("attempt %d: %+v", w.Attempt, w.Outcome)
		}
		play.once(t, w)
		if _, err := s.SubmitJob(t.Context(), alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}, JobSpec: spawner.JobSpec{Retries: 101}}}); !errs.Is(err, errs.Invalid) {
			t.Error(err)
		}
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		w = s.submit(alice, r)
		s.reach(w.ID, spawner.Running)
		if _, err := s.Stop(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		if w = s.reach(w.ID, spawner.Stopped); !w.Outcome.Canceled || w.Attempt != 0 {
			t.Errorf("attempt %d: %+v", w.Attempt, w.Outcome)
		}
	})(t)
}

// TestRetry: its owner has a job tried again that has failed, or was canceled, once a request; one that is done only if
// she means it.
func TestRetry(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		play := &tries{fails: 1}
		s.crew.Boot(play.boot)
		r := simpleJob()
		r.Files, r.RequestID = map[string][]byte{"in": []byte("input")}, "submission"
		j := s.reach(s.submit(alice, r).ID, spawner.Stopped)
		if !j.Outcome.Failed {
			t.Fatalf("%+v", j.Outcome)
		}
		again := spawner.Retry{Resources: &spawner.Resources{CPUs: 2, Memory: 2 << 30}, RequestID: "again"}
		for range 2 {
			if _, err := s.Retry(t.Context(), alice, j.ID, again); err != nil {
				t.Fatal(err)
			}
		}
		w := s.reach(j.ID, spawner.Stopped)
		whole, err := s.Log(t.Context(), alice, j.ID, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		late, err := s.Log(t.Context(), alice, j.ID, 1<<40, true)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := io.ReadAll(whole)
		if got, err := io.ReadAll(late); err != nil || len(want) == 0 || string(got) != string(want) {
			t.Errorf("who has had more than there is of it gets %q of %q, %v", got, want, err)
		}
		if w.Outcome.Failed || w.Attempt != 1 || w.Spec.Resources.CPUs != 2 || s.readFile(j.ID, "out") != "xx" || s.crew.Hand(j.ID) != nil {
			t.Errorf("%+v", w)
		}
		if w, err := s.Retry(t.Context(), alice, j.ID, again); err != nil || w.Phase != spawner.Stopped {
			t.Errorf("the same request again: %s, %v", w.Phase, err)
		}
		if same := s.submit(alice, r); same.ID != j.ID {
			t.Errorf("its submission repeated gives %s", same.ID)
		}
		for name, tt := range map[string]struct {
			c    spawner.Caller
			r    spawner.Retry
			kind errs.Kind
		}{
			"a done one":   {alice, spawner.Retry{}, errs.Conflict},
			"of another":   {bob, spawner.Retry{Of: anyEnd}, errs.NotFound},
			"by an admin":  {admin, spawner.Retry{Of: anyEnd, RequestID: "again"}, errs.Forbidden}, // whom a request of alice's gives nothing either
			"by a hub":     {hub, spawner.Retry{Of: anyEnd}, errs.NotFound},
			"a long id":    {alice, spawner.Retry{RequestID: strings.Repeat("x", 1000), Of: anyEnd}, errs.Invalid},
			"far too much": {alice, spawner.Retry{Of: anyEnd, Resources: &spawner.Resources{CPUs: 99, Memory: 1}}, 0},
		} {
			if _, err := s.Retry(t.Context(), tt.c, j.ID, tt.r); tt.kind != 0 && !errs.Is(err, tt.kind) {
				t.Errorf("%s: %v", name, err)
			}
		}
		w = s.reach(j.ID, spawner.Stopped)
		if _, err := s.Retry(t.Context(), alice, j.ID, spawner.Retry{Of: anyEnd}); err != nil {
			t.Error(err)
		}
		if w = s.reach(j.ID, spawner.Stopped); w.Attempt < 2 {
			t.Errorf("attempt %d", w.Attempt)
		}
	})(t)
}

// TestStepsAreRecalled: over a restart the steps that matter of a job have their own times.
func TestStepsAreRecalled(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		play := &tries{fails: 1}
		s.crew.Boot(play.boot)
		j := s.submit(alice, simpleJob())
		s.reach(j.ID, spawner.Stopped)
		time.Sleep(time.Hour)
		if _, err := s.Retry(t.Context(), alice, j.ID, spawner.Retry{}); err != nil {
			t.Fatal(err)
		}
		w := s.reach(j.ID, spawner.Stopped)
		time.Sleep(time.Hour)
		s.restart()
		steps := s.steps(j.ID)
		if len(steps) != 4 || !steps[0].Time.Equal(w.Created) || !steps[1].Time.Equal(w.Attempts[0].At) || !steps[2].Time.Equal(w.Up) || !steps[3].Time.Equal(w.Outcome.At) {
			t.Errorf("%+v of %+v", steps, w)
		}
		if last := steps[len(steps)-1]; !last.Final || last.Seq < w.Outcome.At.Add(time.Hour).UnixMilli() {
			t.Errorf("who follows it misses its end: %+v", last)
		}
	})(t)
}

// steps returns what is known to have happened to a workload, without waiting for more.
func (s *service) steps(id spawner.ID) []spawner.Event {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	seq, err := s.Events(ctx, admin, id, "", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.Collect(seq)
}

// anyEnd has a job tried again however it has ended.
var anyEnd = []spawner.Ending{spawner.Done, spawner.Failed, spawner.Canceled}

// TestRetryOfAnotherEnd: who names how what she means has ended does not have run again what has ended otherwise.
func TestRetryOfAnotherEnd(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		j := s.submit(alice, simpleJob())
		s.reach(j.ID, spawner.Running)
		if _, err := s.Stop(t.Context(), alice, j.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(j.ID, spawner.Stopped)
		_, err := s.Retry(t.Context(), alice, j.ID, spawner.Retry{Of: []spawner.Ending{spawner.Failed, spawner.Done}})
		if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "is canceled, not failed or done") {
			t.Errorf("a canceled one: %v", err)
		}
		if w, err := s.Retry(t.Context(), alice, j.ID, spawner.Retry{Of: []spawner.Ending{spawner.Canceled}}); err != nil || w.Attempt != 1 {
			t.Errorf("%+v, %v", w, err)
		}
	})(t)
}

// TestRetryIsCanceled: one that waits for its next try ends as any that waits.
func TestRetryIsCanceled(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		play := &tries{fails: 1}
		s.crew.Boot(play.boot)
		j := s.reach(s.submit(alice, simpleJob()).ID, spawner.Stopped)
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		s.reach(s.submit(bob, simpleJob()).ID, spawner.Running) // takes the only place
		if _, err := s.Retry(t.Context(), alice, j.ID, spawner.Retry{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if files, err := s.Files(t.Context(), alice, j.ID); err != nil || len(files) > 0 {
			t.Errorf("it waits, and has %v, %v", files, err)
		}
		if _, err := s.Hold(t.Context(), alice, j.ID); err != nil {
			t.Error(err)
		}
		if _, err := s.Stop(t.Context(), alice, j.ID); err != nil {
			t.Fatal(err)
		}
		if w := s.reach(j.ID, spawner.Stopped); !w.Outcome.Canceled || w.Attempt != 1 || s.jobs.Runs(j.ID) != 0 {
			t.Errorf("%+v", w)
		}
	})(t)
}

// TestCrashInTries kills the service at each step of a job that is tried again, by itself and by its owner: no try is
// lost, and none is made twice.
func TestCrashInTries(t *testing.T) {
	own := func(s *fated, r spawner.JobRequest) {
		play := &tries{fails: 2}
		s.crew.Boot(play.boot)
		r.Retries, r.RequestID = 1, "once"
		var j spawner.Workload
		s.try(func() (err error) { j, err = s.SubmitJob(s.t.Context(), alice, r); return err })
		j = s.wait(j.ID, spawner.Stopped)
		if j.Outcome == nil || !j.Outcome.Failed || j.Attempt != 1 {
			s.t.Errorf("attempt %d: %+v", j.Attempt, j.Outcome)
		}
		s.try(func() error {
			_, err := s.Retry(s.t.Context(), alice, j.ID, spawner.Retry{RequestID: "again"})
			return err
		})
		w := s.wait(j.ID, spawner.Stopped)
		if w.Attempt != 2 || w.Outcome == nil {
			s.t.Errorf("attempt %d: %+v", w.Attempt, w.Outcome)
		}
		play.once(s.t, w)
	}
	atEveryStep(t, "here", func(t *testing.T, f *fuse) {
		s := newFated(t, f)
		own(s, simpleJob())
		s.atRest()
	})
	atEveryStep(t, "remote", func(t *testing.T, f *fuse) {
		s := newDoomed(t, f)
		own(&s.fated, poolJob())
		s.rest()
	})
}

// TestPausesBetweenTries: before each try by itself a job waits for longer, over restarts too, and says so; others go
// on meanwhile.
func TestPausesBetweenTries(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.config.Limits.Retry = 10 * time.Second
		s.start()
		play := &tries{fails: 3}
		s.crew.Boot(play.boot)
		r := simpleJob()
		r.Retries = 3
		j := s.submit(alice, r)
		var waits []time.Duration
		for try := 1; try <= 3; try++ {
			w := s.await(j.ID, func(w spawner.Workload) bool { return w.Attempt == try && w.Phase == spawner.Pending })
			if text := s.Detail(w); !strings.HasSuffix(text, "s: the job ended with exit code 3") || !strings.HasPrefix(text, "tries again in ") {
				t.Errorf("it says %q", text)
			}
			if why, err := s.Why(t.Context(), alice, j.ID); err != nil || !strings.HasPrefix(why.Summary, "it tries again in ") {
				t.Errorf("%+v, %v", why, err)
			}
			if try == 2 {
				time.Sleep(5 * time.Second)
				s.restart()
			}
			ended := time.Now()
			s.await(j.ID, func(w spawner.Workload) bool { return w.Phase != spawner.Pending })
			waits = append(waits, time.Since(ended).Round(time.Second))
		}
		if want := []time.Duration{10 * time.Second, 30 * time.Second, 90 * time.Second}; !slices.Equal(waits, want) {
			t.Errorf("it waits for %v, want %v", waits, want)
		}
		if w := s.reach(j.ID, spawner.Stopped); w.Outcome.Failed {
			t.Errorf("%+v", w.Outcome)
		}
		if text := messages(s.events(j.ID, "")); !slices.Contains(text, "It tries again in 1m30s: the job ended with exit code 3") {
			t.Errorf("%q", text)
		}
		play.fails = 1000
		j = s.submit(alice, r)
		s.await(j.ID, func(w spawner.Workload) bool { return w.BackingOff })
		if _, err := s.Stop(t.Context(), alice, j.ID); err != nil {
			t.Fatal(err)
		}
		if w := s.reach(j.ID, spawner.Stopped); !w.Outcome.Canceled || w.Attempt != 1 {
			t.Errorf("canceled while it waits: %+v", w)
		}
		if _, err := s.Retry(t.Context(), alice, j.ID, spawner.Retry{}); err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		if s.reach(j.ID, spawner.Running); time.Since(asked) > 5*time.Second {
			t.Errorf("asked for by hand it waits for %s", time.Since(asked))
		}
	})(t)
}

// TestNotTriedAgain: what would fail in the same way again is not tried again by itself, and says why; its owner can
// have it tried.
func TestNotTriedAgain(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(func(h *spawnertest.Hand) {
			h.Ready()
			h.Print("ModuleNotFoundError: No module named 'uproot'\n")
			h.Exit(1)
		})
		r := simpleJob()
		r.Retries = 2
		w := s.reach(s.submit(alice, r).ID, spawner.Stopped)
		if w.Attempt != 0 || w.Outcome.Cause != spawner.CauseModule || !strings.HasPrefix(w.Outcome.Remedy, "it was not tried again, which would not help; run %pip install uproot") {
			t.Errorf("attempt %d: %+v", w.Attempt, w.Outcome)
		}
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready(); h.Exit(0) })
		if w, err := s.Retry(t.Context(), alice, w.ID, spawner.Retry{}); err != nil || w.Attempt != 1 {
			t.Errorf("by hand: %+v, %v", w, err)
		}
		s.reach(w.ID, spawner.Stopped)
		r.Out = []string{"*.root"}
		if w := s.reach(s.submit(alice, r).ID, spawner.Stopped); w.Attempt != 0 || w.Outcome.Cause != spawner.CauseOutput {
			t.Errorf("attempt %d: %+v", w.Attempt, w.Outcome)
		}
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		j := s.submit(alice, r)
		s.reach(j.ID, spawner.Running)
		s.jobs.Vanish(j.ID)
		s.await(j.ID, func(w spawner.Workload) bool { return w.Attempt == 1 })
	})(t)
}

// await waits until a workload is as it is to be.
func (s *service) await(id spawner.ID, is func(spawner.Workload) bool) spawner.Workload {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Hour)
	defer cancel()
	w, err := s.Await(ctx, admin, id, is)
	if err != nil {
		s.t.Fatalf("%s: %v; it is %+v", id, err, w)
	}
	return w
}
