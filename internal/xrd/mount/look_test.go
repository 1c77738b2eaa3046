package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/xrd"
	"slipway/internal/xrd/xrdtest"
)

// silent returns a Mounter of which looks at mounts of the name "old" come back only when the test has ended.
func silent(t *testing.T, all ...view) (m *Mounter, stuck *atomic.Int32) {
	stuck = &atomic.Int32{}
	end := make(chan struct{})
	var back sync.WaitGroup
	t.Cleanup(func() { close(end); back.Wait() })
	m = &Mounter{cfg: Config{Patience: 50 * time.Millisecond}, looks: newLooks(all)}
	m.cfg.Look = func(point string) error {
		if filepath.Base(point) != "old" {
			return nil
		}
		back.Add(1)
		defer back.Done()
		stuck.Add(1)
		<-end
		return nil
	}
	return m, stuck
}

func TestSilentStorageHoldsFewThreads(t *testing.T) {
	t.Parallel()
	eos, other := view{Element: xrd.Element{Name: "eos"}}, view{Element: xrd.Element{Name: "other"}}
	m, stuck := silent(t, eos, other)
	var asking sync.WaitGroup
	for i := range 100 {
		asking.Go(func() {
			if err := m.answers(t.Context(), eos, fmt.Sprintf("/s-%d/old", i), "a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a mount that is silent: %v", err)
			}
		})
	}
	asking.Wait()
	if n := stuck.Load(); n != looksAtOnce {
		t.Errorf("%d looks are under way", n)
	}
	m.cfg.Patience = time.Minute
	if err := m.answers(t.Context(), other, "/s-1/other", "a"); err != nil {
		t.Errorf("another element: %v", err)
	}
}

func TestLookAtOldMountDoesNotHinderNewOne(t *testing.T) {
	t.Parallel()
	eos := view{Element: xrd.Element{Name: "eos"}}
	m, stuck := silent(t, eos)
	for range 2 {
		if err := m.answers(t.Context(), eos, "/s-1/old", "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a mount that is silent: %v", err)
		}
	}
	if n := stuck.Load(); n != 1 {
		t.Errorf("%d looks at one mount", n)
	}
	m.cfg.Look, m.cfg.Patience = func(string) error { return nil }, time.Minute
	if err := m.answers(t.Context(), eos, "/s-1/old", "b"); err != nil {
		t.Errorf("what is mounted there now: %v", err)
	}
}

func TestRoundReadsMountsOnce(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true}, xrd.Element{Name: "other", Origin: origin.URL, Path: "/", Mount: true})
	var all []Session
	for _, id := range []string{"s-1", "s-2", "s-3"} {
		b.open(t, id, "alice", 1)
		all = append(all, Session{id, "alice"})
	}
	b.opening.Wait()
	var reads atomic.Int32
	read := b.info
	b.info = func() ([]byte, error) { reads.Add(1); return read() }
	for range 5 {
		b.round(t.Context(), func() []Session { return all })
	}
	if n := reads.Load(); n != 5 {
		t.Errorf("mountinfo was read %d times in 5 rounds", n)
	}
}

// TestRenewalShowsNoEmptyDirectory: who reads while mounts are exchanged, on the host and as a container sees them,
// misses nothing.
func TestRenewalShowsNoEmptyDirectory(t *testing.T) {
	t.Parallel()
	if beneath := unix.MoveMount(-1, "", -1, "", moveMountBeneath); errors.Is(beneath, unix.EINVAL) {
		t.Skip("this kernel is older than Linux 6.5")
	}
	origin := xrdtest.Origin(t)
	origin.Put("a", "content")
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true})
	seen := t.TempDir()
	dir := b.dir("s-1")
	if err := errors.Join(os.MkdirAll(dir, 0o755), unix.Mount(dir, seen, "", unix.MS_BIND, ""), unix.Mount("", seen, "", unix.MS_SLAVE, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = leave(seen) })
	b.open(t, "s-1", "alice", 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var missed, read atomic.Int32
	var reading sync.WaitGroup
	for _, file := range []string{filepath.Join(dir, "eos/a"), filepath.Join(seen, "eos/a")} {
		xrdtest.Eventually(t, file, reads(file, "content"))
		reading.Go(func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
					missed.Add(1)
				}
				read.Add(1)
			}
		})
	}
	for i := range 4 {
		before, began := b.mounted("s-1"), read.Load()
		b.give("alice", fmt.Sprintf("token %d", i))
		b.settle(t.Context(), Session{"s-1", "alice"}, nil)
		if after := b.mounted("s-1"); fmt.Sprint(before) == fmt.Sprint(after) || len(after[filepath.Join(dir, "eos")]) != 1 {
			t.Errorf("mounted before: %v, now: %v", before, after)
		}
		if b.Status("s-1")[0].Trouble != "" || read.Load() == began {
			t.Errorf("%+v, %d read", b.Status("s-1"), read.Load()-began)
		}
	}
	cancel()
	reading.Wait()
	if n := missed.Load(); n > 0 {
		t.Errorf("the file was not there %d times of %d", n, read.Load())
	}
	xrdtest.Eventually(t, "old ones have ended", func() error {
		if left := b.processes(b.cfg.RunDir); len(left) != 1 {
			return fmt.Errorf("processes %v", left)
		}
		return nil
	})
}

// TestTableUndoesEscapes: a point and a name are what was asked for, also with characters that the kernel writes in
// octal.
func TestTableUndoesEscapes(t *testing.T) {
	m := &Mounter{cfg: Config{Dir: "/srv/a b"}, info: func() ([]byte, error) {
		return []byte("short line\n36 35 0:52 / /srv/a\\040b/s-1/eos\\0431 rw shared:1 - fuse root://eos\\043lab rw\n"), nil
	}}
	if !m.table().shows("s-1", "/srv/a b/s-1/eos#1", "root://eos#lab") {
		t.Errorf("%q", m.table())
	}
}
