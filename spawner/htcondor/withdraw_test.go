package htcondor

import (
	"context"
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/htcondor/commands"
)

// TestWithdraw: what waits is taken back; what has begun since it was last seen is not, nor what is over.
func TestWithdraw(t *testing.T) {
	s := newSchedd()
	b, launch := played(t, s)
	waits, runs := launch(1), launch(2)
	for _, l := range []spawner.Launch{waits, runs} {
		must(t, b.Start(t.Context(), l))
	}
	s.mu.Lock()
	s.before = func(c commands.Command) { // between the look and the removal
		if c.Name == "condor_rm" {
			s.jobs["2.0"] = strings.Replace(s.jobs["2.0"], `"JobStatus":1`, `"JobStatus":2,"NumShadowStarts":1`, 1)
		}
	}
	s.mu.Unlock()
	must(t, b.Withdraw(t.Context(), waits.ID))
	must(t, b.Withdraw(t.Context(), waits.ID))
	s.is("2.0", `"JobStatus":2,"NumShadowStarts":1`, `"JobStatus":1`)
	for range 2 {
		if err := b.Withdraw(t.Context(), runs.ID); !errs.Is(err, errs.Conflict) {
			t.Errorf("what has begun: %v", err)
		}
	}
	if got := s.names(); len(got) != 1 || got[0] != "2.0" || !b.records.Has(runs.ID) || b.records.Has(waits.ID) {
		t.Errorf("in the queue: %q", got)
	}
	rec, _, err := b.records.Get(runs.ID)
	must(t, err)
	if rec.Withdrawn {
		t.Error("what runs is noted as taken back")
	}
	s.vanish(never)
	if err := b.Withdraw(t.Context(), runs.ID); !errs.Is(err, errs.Conflict) {
		t.Errorf("what has left the queue: %v", err)
	}
}

// TestWithdrawnBefore: a service that was killed when the schedd had just let go of a job has taken it back.
func TestWithdrawnBefore(t *testing.T) {
	s := newSchedd()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	s.mu.Lock()
	s.after = func(c commands.Command) error {
		if c.Name == "condor_rm" {
			return context.Canceled
		}
		return nil
	}
	s.mu.Unlock()
	if err := b.Withdraw(t.Context(), l.ID); err == nil {
		t.Fatal("it has seen it done")
	}
	until(t, "it is gone", func() bool {
		o, err := b.Observe(t.Context(), l.ID)
		must(t, err)
		if o.Existence != spawner.Absent && o.Existence != spawner.Queued {
			t.Fatalf("seen as %+v", o)
		}
		return o.Existence == spawner.Absent
	})
	must(t, b.Withdraw(t.Context(), l.ID))
	if b.records.Has(l.ID) {
		t.Error("its record is still there")
	}
}

// TestRealWithdraw: the schedd takes back what waits and leaves what runs, also where the service takes it for waiting.
func TestRealWithdraw(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.backend(t)
	large := w.launch(t)
	large.Spec.Resources.CPUs = 1000
	runs := begin(t, b, w.launch(t))
	must(t, b.Start(t.Context(), large))
	await(t, b, runs.ID, spawner.Up)
	for _, id := range []spawner.ID{large.ID, large.ID, "j-0"} {
		must(t, b.Withdraw(t.Context(), id))
		if o, err := b.Observe(t.Context(), id); err != nil || o.Existence != spawner.Absent {
			t.Errorf("%s: %+v, %v", id, o, err)
		}
	}
	if err := b.Withdraw(t.Context(), runs.ID); !errs.Is(err, errs.Conflict) {
		t.Errorf("what runs: %v", err)
	}
	_, err := b.removals.Join(t.Context(), removal{removalKey{"alice", true}, jobOf(t, b, runs.ID)}) // by a look of before it ran
	must(t, err)
	jobs, err := b.seek(t.Context(), runs.ID)
	if err != nil || len(jobs) != 1 || jobs[0].Status != running {
		t.Errorf("of what runs there is %+v, %v", jobs, err)
	}
}
