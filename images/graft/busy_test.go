package graft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// pauses counts the calls of a source's two functions.
type pauses struct{ paused, resumed int }

func count(cfg *Config) *pauses {
	p := &pauses{}
	pause := cfg.Pause
	cfg.Pause = func(ctx context.Context) error {
		p.paused++
		if pause == nil {
			return nil
		}
		return pause(ctx)
	}
	cfg.Resume = func(ctx context.Context) error {
		p.resumed++
		return ctx.Err()
	}
	return p
}

// writer changes a tree until it is stopped, and stands still between pause and resume.
type writer struct {
	mu   sync.RWMutex
	stop chan struct{}
	all  sync.WaitGroup
}

func (w *writer) keep(fn func(r *rand.Rand)) {
	seed := rand.Uint64()
	w.all.Go(func() {
		r := rand.New(rand.NewPCG(seed, 1))
		for {
			select {
			case <-w.stop:
				return
			default:
				w.mu.RLock()
				fn(r)
				w.mu.RUnlock()
			}
		}
	})
}

// TestBusySourceGivesTheTreeOfThePause lets writers of every sort at work while grafts are made, and compares with what
// the overlay showed in the pause.
func TestBusySourceGivesTheTreeOfThePause(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(func(root string) error {
		for i := range 300 {
			if err := write(filepath.Join(root, fmt.Sprintf("opt/many/%d/%d", i%10, i)), strings.Repeat("x", i*50)); err != nil {
				return err
			}
		}
		return errors.Join(write(filepath.Join(root, "opt/log"), ""), write(filepath.Join(root, "opt/mapped"), strings.Repeat("m", 1<<20)), write(filepath.Join(root, "opt/large"), strings.Repeat("L", 8<<20)))
	})
	w := &writer{stop: make(chan struct{})}
	f.writers(w)
	redone := 0
	for range testenv.Rounds(2, 5) {
		var want []string
		r, tail := f.graft(func(c *Config) {
			c.Pause = func(context.Context) error {
				w.mu.Lock()
				want = f.list()
				return nil
			}
			c.Resume = func(context.Context) error {
				w.mu.Unlock()
				return nil
			}
		})
		redone += r.Redone
		f.equal(want, r, tail)
	}
	close(w.stop)
	w.all.Wait()
	if redone == 0 {
		t.Error("nothing changed while the grafts were made: the test shows nothing")
	}
}

func (f *fixture) writers(w *writer) {
	f.t.Helper()
	at := func(p string) string { return filepath.Join(f.merged, p) }
	many := func(r *rand.Rand) string { return at(fmt.Sprintf("opt/many/%d/%d", r.IntN(10), r.IntN(300))) }
	mapped := f.mapped(at("opt/mapped"))
	log, err := os.OpenFile(at("opt/log"), os.O_APPEND|os.O_WRONLY, 0)
	must(f.t, err)
	f.t.Cleanup(func() { log.Close() })
	w.keep(func(r *rand.Rand) { io.WriteString(log, "a line\n") })
	w.keep(func(r *rand.Rand) { mapped[r.IntN(len(mapped))]++ })
	w.keep(func(r *rand.Rand) { os.WriteFile(many(r), bytes.Repeat([]byte("y"), r.IntN(9000)), 0o644) })
	w.keep(func(r *rand.Rand) { os.Remove(many(r)) })
	w.keep(func(r *rand.Rand) { os.Rename(many(r), many(r)) })
	w.keep(func(r *rand.Rand) { os.Truncate(at("opt/large"), int64(r.IntN(8<<20))) })
	w.keep(func(r *rand.Rand) { os.Chmod(many(r), os.FileMode(0o600+r.IntN(64))) })
	w.keep(func(r *rand.Rand) {
		dir := at(fmt.Sprintf("usr/opaque/%d", r.IntN(4)))
		os.RemoveAll(dir)
		os.MkdirAll(filepath.Join(dir, "below"), 0o755)
		os.RemoveAll(at("usr/opaque/sub"))
	})
}

// mapped maps a file so that its pages change without a call that a file system sees.
func (f *fixture) mapped(path string) []byte {
	f.t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(f.t, err)
	defer file.Close()
	m, err := unix.Mmap(int(file.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(f.t, err)
	f.t.Cleanup(func() { must(f.t, unix.Munmap(m)) })
	return m
}

// TestMappedPagesAreSeen writes to a mapping whose page was dirty already when the graft read it, so that no time
// changes but for the graft's own care.
func TestMappedPagesAreSeen(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(func(root string) error { return write(filepath.Join(root, "opt/mapped"), strings.Repeat("m", 1<<20)) })
	m := f.mapped(filepath.Join(f.merged, "opt/mapped"))
	for i := range 20 {
		m[7] = byte(i)
		clock.Sleep(t.Context(), tick)
		r, tail := f.graft(func(c *Config) {
			c.Pause = func(context.Context) error {
				m[7] += 100
				return nil
			}
		})
		got, err := os.ReadFile(filepath.Join(f.mount(r, tail), "opt/mapped"))
		must(t, err)
		if got[7] != byte(i)+100 || r.Redone != 1 {
			t.Fatalf("round %d: the byte is %d, %d redone", i, got[7], r.Redone)
		}
		m[7]++
		if state, _, _, err := Scan(t.Context(), f.upper, f.strip); err != nil || state == r.State {
			t.Fatalf("round %d: a write after the pause does not show, %v", i, err)
		}
	}
}

// TestFilesInMemoryAreReadInThePause: a tmpfs never writes a page out, so times tell nothing about mappings there.
func TestFilesInMemoryAreReadInThePause(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mksquashfs, testenv.Loop)
	dir := t.TempDir()
	must(t, unix.Mount("test", dir, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	f := fixtureIn(t, dir, nastyBase)
	f.change(func(root string) error { return write(filepath.Join(root, "opt/x"), "x") })
	if r, _ := f.graft(nil); r.Passes != 0 || r.Redone != 1 {
		t.Errorf("%d passes, %d redone", r.Passes, r.Redone)
	}
}

func TestOnlyWhatChangedIsReadAgain(t *testing.T) {
	f := newFixture(t, nastyBase)
	at := func(p string) string { return filepath.Join(f.merged, p) }
	f.change(func(string) error {
		return errors.Join(write(at("opt/kept"), "kept"), write(at("opt/edited"), "one"), write(at("opt/gone"), "gone"), write(at("opt/same-size"), "one"), write(at("opt/x"), "x"))
	})
	var looked sync.Map
	r, tail := f.graft(func(c *Config) {
		c.Look = func(path string, content []byte) { looked.Store(path+"="+string(content), true) }
		c.Pause = func(context.Context) error {
			return errors.Join(write(at("opt/edited"), "longer"), write(at("opt/same-size"), "two"), os.Remove(at("opt/gone")), os.Rename(at("opt/x"), at("opt/y")), write(at("opt/new"), "new"))
		}
	})
	f.equal(f.list(), r, tail)
	if r.Redone != 3 && r.Redone != 4 { // a rename changes an inode's ctime on some file systems
		t.Errorf("redone %d", r.Redone)
	}
	for _, want := range []string{"/opt/kept=kept", "/opt/edited=one", "/opt/edited=longer", "/opt/same-size=two", "/opt/new=new"} {
		if _, ok := looked.Load(want); !ok {
			t.Errorf("nobody looked at %s", want)
		}
	}
}

// TestResumedOnceWhateverFails breaks a graft at one place after another.
func TestResumedOnceWhateverFails(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		harm   func(f *fixture, c *Config)
		want   error
		paused int
	}{
		"pause": {func(f *fixture, c *Config) { c.Pause = func(context.Context) error { return broken } }, broken, 1},
		"disk": {func(f *fixture, c *Config) {
			must(f.t, write(filepath.Join(f.upper, "opt/more-than-is-read-ahead"), random(64<<20)))
			c.Pack = &full{left: 1 << 10}
		}, unix.ENOSPC, 0},
		"tables": {func(f *fixture, c *Config) { c.Out = &full{left: 3<<20 + 64} }, unix.ENOSPC, 1},
		"disk in the pause": {func(f *fixture, c *Config) {
			c.Pack = &full{left: 4 << 20}
			c.Pause = func(context.Context) error { return write(filepath.Join(f.merged, "opt/more"), random(4<<20)) }
		}, unix.ENOSPC, 1},
		"not self-contained any more": {func(f *fixture, c *Config) {
			c.Pause = func(context.Context) error {
				return unix.Setxattr(filepath.Join(f.upper, "usr"), tree.OverlayPrefix+"redirect", []byte("/x"), 0)
			}
		}, ErrNotSelfContained, 1},
		"upper directory gone": {func(f *fixture, c *Config) { c.Upper = f.at("nowhere") }, os.ErrNotExist, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nastyBase)
			f.change(func(root string) error {
				return errors.Join(write(filepath.Join(root, "usr/new"), "x"), write(filepath.Join(root, "opt/big"), random(3<<20)), write(filepath.Join(root, "opt/look"), "1"))
			})
			cfg := f.config(io.Discard)
			tc.harm(f, &cfg)
			calls := count(&cfg)
			if _, err := Graft(t.Context(), cfg); !errors.Is(err, tc.want) {
				t.Errorf("err = %v, want %v", err, tc.want)
			}
			if want := (pauses{tc.paused, tc.paused}); *calls != want {
				t.Errorf("calls %+v, want %+v", *calls, want)
			}
		})
	}
}

func random(n int) string {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return string(b)
}

// full is a disk with little room.
type full struct{ left int }

// ReadAt reads nothing: no more was written than is told.
func (f *full) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

func (f *full) Write(b []byte) (int, error) {
	if len(b) > f.left {
		return 0, unix.ENOSPC
	}
	f.left -= len(b)
	return len(b), nil
}

func TestResumeThatFailsIsTold(t *testing.T) {
	f := newFixture(t, nastyBase)
	cfg := f.config(io.Discard)
	cfg.Pause = func(context.Context) error { return nil }
	cfg.Resume = func(context.Context) error { return os.ErrDeadlineExceeded }
	if _, err := Graft(t.Context(), cfg); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "resume") {
		t.Errorf("err = %v", err)
	}
}

// TestCanceledAnywhere cancels at each stage; the source runs again, by a context that is not canceled.
func TestCanceledAnywhere(t *testing.T) {
	for _, at := range []Stage{"before", Reading, "reading more", "pause", Paused, Tables} {
		t.Run(string(at), func(t *testing.T) {
			f := newFixture(t, nastyBase)
			f.change(func(root string) error {
				return errors.Join(write(filepath.Join(root, "opt/a"), random(3<<20)), write(filepath.Join(root, "opt/b"), "b"), write(filepath.Join(root, "usr/c"), "c"))
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cfg := f.config(io.Discard)
			cfg.Progress = func(stage Stage, files, _ int64) {
				if stage == at || at == "reading more" && files > 0 {
					cancel()
				}
			}
			cfg.Pause = func(context.Context) error {
				if at == "pause" {
					cancel()
				}
				return nil
			}
			if at == "before" {
				cancel()
			}
			calls := count(&cfg)
			if _, err := Graft(ctx, cfg); !errors.Is(err, context.Canceled) {
				t.Errorf("err = %v", err)
			}
			late := at == "pause" || at == Paused || at == Tables
			if calls.paused != calls.resumed || (calls.paused == 1) != late {
				t.Errorf("calls %+v", *calls)
			}
		})
	}
}

// TestFilesThatChangeAreNamed: in the pause, what cannot be read as it is is an error that says where. The file is
// longer than what is read ahead.
func TestFilesThatChangeAreNamed(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(func(root string) error {
		return errors.Join(write(filepath.Join(root, "opt/a"), random(40<<20)), write(filepath.Join(root, "opt/b"), "b"))
	})
	cfg := f.config(io.Discard)
	path := filepath.Join(f.upper, "opt/a")
	cfg.Level = squashfs.Store
	var once sync.Once
	cfg.Pack = &hook{fn: func() { once.Do(func() { must(t, os.WriteFile(path, nil, 0o644)) }) }}
	_, err := Graft(t.Context(), cfg)
	if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "/opt/a: it changed while it was read") {
		t.Errorf("err = %v", err)
	}
	cfg.Pause, once = func(context.Context) error { return nil }, sync.Once{}
	cfg.Pack = &hook{fn: func() { once.Do(func() { must(t, os.WriteFile(path, nil, 0o644)) }) }}
	must(t, os.WriteFile(path, []byte(random(40<<20)), 0o644))
	if r, err := Graft(t.Context(), cfg); err != nil || r.Redone != 0 || lookup(r.Root, "opt/a").Data != nil {
		t.Errorf("redone %d, err = %v", r.Redone, err)
	}
}

// hook is a file in memory; fn is called before each Write.
type hook struct {
	fn func()

	mu sync.Mutex
	bytes.Buffer
}

// ReadAt reads what was written.
func (h *hook) ReadAt(b []byte, at int64) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.NewReader(h.Bytes()).ReadAt(b, at)
}

func (h *hook) Write(b []byte) (int, error) {
	h.fn()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Buffer.Write(b)
}

// TestSwappedLinksNeverLeadOutside exchanges a directory and a file with links to the host's while they are read.
func TestSwappedLinksNeverLeadOutside(t *testing.T) {
	f := newFixture(t, nastyBase)
	at := f.at
	must(t, write(at("host/f"), "of the host"), write(at("upper/d/f"), "the user's"), write(at("upper/f"), "the user's"))
	must(t, os.Symlink(at("host"), at("upper/link-d")), os.Symlink(at("host/f"), at("upper/link-f")))
	w := &writer{stop: make(chan struct{})}
	w.keep(func(*rand.Rand) {
		unix.Renameat2(unix.AT_FDCWD, at("upper/d"), unix.AT_FDCWD, at("upper/link-d"), unix.RENAME_EXCHANGE)
		unix.Renameat2(unix.AT_FDCWD, at("upper/f"), unix.AT_FDCWD, at("upper/link-f"), unix.RENAME_EXCHANGE)
	})
	made := 0
	for range 100 {
		var tail bytes.Buffer
		cfg := f.config(&tail)
		cfg.Level = squashfs.Store
		cfg.Pause = func(context.Context) error { return nil }
		cfg.Look = func(path string, content []byte) {
			if bytes.Contains(content, []byte("of the host")) {
				t.Errorf("%s was read from the host", path)
			}
		}
		_, err := Graft(t.Context(), cfg)
		if err == nil {
			made++
		}
		if bytes.Contains(tail.Bytes(), []byte("of the host")) {
			t.Error("the tail holds a file of the host")
		}
		if _, _, _, err := Scan(t.Context(), at("upper"), f.strip); err != nil {
			t.Errorf("scan: %v", err)
		}
	}
	close(w.stop)
	w.all.Wait()
	if made == 0 {
		t.Error("no graft came about")
	}
}
