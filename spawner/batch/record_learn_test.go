package batch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"slipway/internal/clock"
	"slipway/spawner"
)

// TestOddRecords: what is no record is none, and one that cannot be read hides no other workload.
func TestOddRecords(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	for n, text := range []string{"", `{"id":"j-1","run`, `{}`, `{"id":"j-9","run":"l-9"}`} {
		l := launch(n)
		must(t, b.Start(t.Context(), l))
		must(t, os.WriteFile(filepath.Join(b.records.Dir(l.ID), RecordFile), []byte(text), 0o600))
	}
	unreadable := launch(7)
	must(t, b.Start(t.Context(), unreadable))
	name := filepath.Join(b.records.Dir(unreadable.ID), RecordFile)
	must(t, errors.Join(os.Remove(name), os.Mkdir(name, 0o700)))
	b = assemble(b.cfg, s)
	all, err := b.List(t.Context())
	if err != nil || len(all) != 4 {
		t.Errorf("List() = %v, %v", all, err)
	}
	for n := range 4 {
		if _, known, err := b.records.Get(launch(n).ID); known || err != nil {
			t.Errorf("record %d: %v, %v", n, known, err)
		}
		must(t, b.Start(t.Context(), launch(n)))
	}
	if o, err := b.Observe(t.Context(), unreadable.ID); err == nil {
		t.Errorf("Observe = %+v", o)
	}
	if got := s.names(); len(got) != 5 || s.count(submitted) != 5 {
		t.Errorf("in the queue after %d submissions: %q", s.count(submitted), got)
	}
	for n := range 4 {
		if rec, known, err := b.records.Get(launch(n).ID); !known || err != nil || rec.Job == "" || rec.Run != launch(n).Run() {
			t.Errorf("the record that was made anew: %+v, %v, %v", rec, known, err)
		}
	}
}

// TestLearns: what was learnt of a run counts, also where it cannot be saved; of a run that is over nothing is learnt
// any more.
func TestLearns(t *testing.T) {
	b, launch := played(t, newCluster())
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	name := filepath.Join(b.records.Dir(l.ID), RecordFile)
	must(t, errors.Join(os.Remove(name), os.Mkdir(name, 0o700)))
	rec, _, err := b.records.Get(l.ID)
	must(t, err)
	rec.End = &End{Code: 7}
	b.learn(rec)
	if got, _, err := b.records.Get(l.ID); err != nil || got.End == nil || got.End.Code != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	rec.Run, rec.End = "l-other", nil
	b.learn(rec)
	if got, _, err := b.records.Get(l.ID); err != nil || got.End == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestStrays: of jobs without a record here few are told of at a time, the oldest first, so that not all are ended at
// once.
func TestStrays(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	kept := mostStrays + 4
	for n := range kept + 1 {
		must(t, b.Start(t.Context(), launch(n)))
	}
	for n := range kept {
		must(t, b.records.Drop(launch(n).ID))
	}
	seen := func(first, n int) {
		t.Helper()
		clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
		all, err := b.List(t.Context())
		if err != nil || len(all) != n+1 || all[launch(first).ID] != spawner.Queued || all[launch(kept).ID] != spawner.Queued {
			t.Fatalf("List() = %v, %v", all, err)
		}
	}
	seen(0, mostStrays)
	for n := range 5 {
		must(t, b.Remove(t.Context(), launch(n).ID))
	}
	seen(5, kept-5)
}
