package batch

import (
	"context"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
)

// TestWithdraw: what waits is taken back; what has begun since it was last seen is not, nor what is over.
func TestWithdraw(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	waits, runs := launch(1), launch(2)
	for _, l := range []spawner.Launch{waits, runs} {
		must(t, b.Start(t.Context(), l))
	}
	s.mu.Lock()
	s.before = func(c string) { // between the look and the removal
		if c == removed {
			j := s.jobs["2.0"]
			begins("n1")(&j)
			s.jobs["2.0"] = j
		}
	}
	s.mu.Unlock()
	must(t, b.Withdraw(t.Context(), waits.ID))
	must(t, b.Withdraw(t.Context(), waits.ID))
	s.is("2.0", func(j *Job) { j.Begun, j.Seen = false, spawner.Observation{Existence: spawner.Queued} })
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
	s := newCluster()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	s.mu.Lock()
	s.after = func(c string) error {
		if c == removed {
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
