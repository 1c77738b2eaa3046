package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"slipway/internal/errs"
)

// TestOneFlushServesAll: those who come while the disk flushes wait for one more flush together.
func TestOneFlushServesAll(t *testing.T) {
	flushing, release := make(chan struct{}), make(chan struct{})
	flushes := 0
	d := disk{flush: func() error {
		flushes++
		flushing <- struct{}{}
		<-release
		return nil
	}}
	var all sync.WaitGroup
	d.wrote()
	all.Go(func() { _ = d.sync() })
	<-flushing
	for range 50 {
		d.wrote()
		all.Go(func() { _ = d.sync() })
	}
	release <- struct{}{}
	<-flushing
	release <- struct{}{}
	all.Wait()
	if flushes > 2 {
		t.Errorf("%d flushes for 51 who waited", flushes)
	}
	if err := d.sync(); err != nil || flushes > 2 {
		t.Errorf("nothing is new, and yet: %v, %d flushes", err, flushes)
	}
}

// TestFailedFlushIsTriedAgain: what is not safe is not taken for safe.
func TestFailedFlushIsTriedAgain(t *testing.T) {
	broken := errors.New("input/output error")
	d := disk{flush: func() error { return broken }}
	d.wrote()
	if err := d.sync(); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	flushed := false
	d.flush = func() error { flushed = true; return nil }
	if err := d.sync(); err != nil || !flushed {
		t.Errorf("%v, flushed %v", err, flushed)
	}
}

// TestWhatIsSyncedIsInTheFiles copies the files as they are after a Sync: what a host that crashed then would find.
func TestWhatIsSyncedIsInTheFiles(t *testing.T) {
	path := place(t)
	s := opened(t, path)
	for i := range 10_000 { // enough for a checkpoint on the way
		put(t, s, "things", fmt.Sprint(i%100), thing{Name: "a thing of some length, so that the log grows", N: i})
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	copied := place(t)
	for _, end := range []string{"", "-wal"} {
		text, err := os.ReadFile(path + end)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+end, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := contents(t, opened(t, copied), "things")
	if len(found) != 100 || found["99"] != `{"name":"a thing of some length, so that the log grows","n":9999}` {
		t.Errorf("%d things, the last is %s", len(found), found["99"])
	}
}

func TestSyncOfALostLog(t *testing.T) {
	path := place(t)
	s := opened(t, path)
	put(t, s, "things", "a", thing{})
	if err := os.Rename(path+"-wal", filepath.Join(filepath.Dir(path), "away")); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(t.Context()); err == nil || errs.KindOf(err) == errs.Invalid {
		t.Errorf("%v", err)
	}
}

func BenchmarkPutAndSync(b *testing.B) {
	s := opened(b, place(b))
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			put(b, s, "things", "a", thing{})
			if err := s.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
