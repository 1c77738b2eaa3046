package batch

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// TestDropped: a record that was dropped stays dropped, whoever reads or amends it meanwhile.
func TestDropped(t *testing.T) {
	s := NewRecords(t.TempDir())
	r := Record{ID: "j-1", Run: "l-1", User: "alice"}
	for range 300 {
		noError(t, os.MkdirAll(s.Dir(r.ID), 0o700))
		noError(t, s.Put(r))
		var wg sync.WaitGroup
		var gone atomic.Bool
		for range 4 {
			wg.Go(func() {
				for !gone.Load() {
					if _, _, err := s.Get(r.ID); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() {
			if err := s.forget(r.ID); err != nil {
				t.Error(err)
			}
			gone.Store(true)
		})
		wg.Go(func() {
			if err := s.Amend(r); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if _, known, err := s.Get(r.ID); known || err != nil {
			t.Fatalf("the dead record is back: %v", err)
		}
	}
	noError(t, s.Drop(r.ID))
	if err := errors.Join(s.Amend(r), s.Drop(r.ID)); err != nil || s.Has(r.ID) {
		t.Errorf("what is gone cannot be amended, nor dropped again: %v", err)
	}
}

// TestAmended: what was learnt of a run is kept, and not of one that another has followed; nothing else is left beside
// the record.
func TestAmended(t *testing.T) {
	s := NewRecords(t.TempDir())
	noError(t, os.Mkdir(s.Dir("j-1"), 0o700))
	noError(t, s.Put(Record{ID: "j-1", Run: "l-2"}))
	noError(t, s.Amend(Record{ID: "j-1", Run: "l-2", Job: "5.0"}))
	noError(t, s.Amend(Record{ID: "j-1", Run: "l-1", Job: "4.0"}))
	again := NewRecords(s.dir)
	if r, known, err := again.Get("j-1"); !known || err != nil || r.Job != "5.0" {
		t.Errorf("%+v, %v, %v", r, known, err)
	}
	if files, err := os.ReadDir(s.Dir("j-1")); err != nil || len(files) != 1 {
		t.Errorf("there are %v, %v", files, err)
	}
}
