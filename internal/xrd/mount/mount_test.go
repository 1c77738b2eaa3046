package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"slipway/internal/secret"
	"slipway/internal/testenv"
	"slipway/internal/xrd"
	"slipway/internal/xrd/xrdtest"
)

// bench is a Mounter over real servers, and the papers of its users.
type bench struct {
	*Mounter
	cfg   Config
	asked atomic.Int32 // how often it was asked which sessions live

	mu     sync.Mutex
	papers map[string]Papers
	told   []string
}

func (b *bench) give(user, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.papers[user] = Papers{Token: secret.New(token)}
}

// heard is what was told to users.
func (b *bench) heard() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.told, "\n")
}

func newBench(t *testing.T, trust string, elements ...xrd.Element) *bench {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.XRootDFS)
	base := t.TempDir()
	b := &bench{papers: map[string]Papers{}}
	storage := xrd.New(xrd.Config{Elements: elements, Every: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = storage.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	for _, e := range elements {
		if e.Cache != "" {
			xrdtest.Eventually(t, "the cache answers", func() error {
				if !storage.Cache(e).Up {
					return errors.New(storage.Cache(e).Trouble)
				}
				return nil
			})
		}
	}
	b.cfg = Config{
		Dir: filepath.Join(base, "storage"), RunDir: filepath.Join(base, "run"), Storage: storage, Trust: trust, Every: 100 * time.Millisecond, Patience: xrdtest.Patience,
		Papers: func(_ context.Context, user, _ string) (Papers, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.papers[user], nil
		},
	}
	b.cfg.Tell = func(_, text string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = append(b.told, text)
	}
	b.Mounter = b.restart(t)
	t.Cleanup(func() {
		logs, _ := filepath.Glob(filepath.Join(b.cfg.RunDir, "*", "log-*"))
		for _, log := range logs {
			if text, _ := os.ReadFile(log); t.Failed() {
				t.Logf("%s: %s", log, text)
			}
		}
		entries, _ := os.ReadDir(b.cfg.Dir)
		for _, e := range entries {
			if err := b.Forget(e.Name()); err != nil {
				t.Error(err)
			}
		}
		if left := b.processes(base); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
		_ = leave(b.cfg.Dir)
	})
	return b
}

// restart makes another Mounter of the same directories, as a service that starts anew does.
func (b *bench) restart(t *testing.T) *Mounter {
	t.Helper()
	m, err := New(b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// open opens a session and waits for its mounts: so many at each place.
func (b *bench) open(t *testing.T, id, user string, each int) string {
	t.Helper()
	dir, err := b.Open(Session{id, user}, func(text string) { t.Log(text) })
	if err != nil {
		t.Fatal(err)
	}
	xrdtest.Eventually(t, id+" has its mounts", func() error {
		have := b.mounted(id)
		for point, names := range have {
			if len(names) != each {
				return fmt.Errorf("%s: %v", point, names)
			}
		}
		if len(have) != len(b.views()) {
			return fmt.Errorf("%d mounts", len(have))
		}
		return nil
	})
	return dir
}

// keep runs the Mounter for sessions until the test ends.
func (b *bench) keep(t *testing.T, m *Mounter, all ...Session) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	live := func() []Session {
		b.asked.Add(1)
		return all
	}
	go func() { _ = m.Run(ctx, live); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}

// rounds waits until all mounts have been looked at so often again.
func (b *bench) rounds(t *testing.T, n int32) {
	t.Helper()
	began := b.asked.Load()
	xrdtest.Eventually(t, "the mounts are looked at", func() error {
		if now := b.asked.Load(); now <= began+n {
			return fmt.Errorf("%d rounds", now-began)
		}
		return nil
	})
}

func reads(file, want string) func() error {
	return func() error {
		got, err := os.ReadFile(file)
		if err == nil && string(got) != want {
			err = fmt.Errorf("%s is %q", file, got)
		}
		return err
	}
}

func TestStorageIsWrittenDirectlyAndReadThroughCache(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	cache := xrdtest.Cache(t, origin)
	origin.Put("a", "content")
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Cache: cache.URL, Path: "/data", Mount: true, Write: true})
	dir := b.open(t, "s-1", "alice", 1)
	for _, name := range []string{"eos/a", "eos.cached/a"} {
		xrdtest.Eventually(t, name, reads(filepath.Join(dir, name), "content"))
	}
	if _, err := os.Stat(filepath.Join(cache.Data, "a.cinfo")); err != nil {
		t.Errorf("nothing has come into the cache: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "eos/b"), []byte("mine"), 0o644); err != nil {
		t.Error(err)
	}
	xrdtest.Eventually(t, "the origin has it", reads(filepath.Join(origin.Data, "b"), "mine"))
	for what, err := range map[string]error{
		"write": os.WriteFile(filepath.Join(dir, "eos.cached/c"), nil, 0o644), "mkdir": os.Mkdir(filepath.Join(dir, "eos.cached/d"), 0o755),
		"remove": os.Remove(filepath.Join(dir, "eos.cached/a")),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s below the cached path: %v", what, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "README.txt")); !strings.Contains(string(text), "write to /storage/eos)") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestCachedPathReadsFromOriginWhenCacheIsDown(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	cache := xrdtest.Cache(t, origin)
	origin.Put("a", "content")
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Cache: cache.URL, Path: "/data", Mount: true, Write: true})
	dir := b.open(t, "s-1", "alice", 1)
	b.keep(t, b.Mounter, Session{"s-1", "alice"})
	cache.Kill()
	origin.Put("later", "new")
	xrdtest.Eventually(t, "the origin serves", reads(filepath.Join(dir, "eos.cached/later"), "new"))
	if err := os.WriteFile(filepath.Join(dir, "eos.cached/c"), nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write: %v", err)
	}
	cache.Start()
	xrdtest.Eventually(t, "the cache serves", func() error {
		_, _ = os.ReadFile(filepath.Join(dir, "eos.cached/later"))
		_, err := os.Stat(filepath.Join(cache.Data, "later"))
		return err
	})
}

// murder kills what is behind a session's mounts.
func (b *bench) murder(t *testing.T, dir string) {
	t.Helper()
	for _, pid := range b.processes(filepath.Join(b.cfg.RunDir, filepath.Base(dir)) + "/") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	xrdtest.Eventually(t, "the mount is dead", func() error {
		if _, err := os.ReadDir(filepath.Join(dir, "eos")); !dead(err) {
			return fmt.Errorf("it is not: %w", err)
		}
		return nil
	})
}

func TestDeadMountIsMadeAnew(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	origin.Put("a", "content")
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
	dir := b.open(t, "s-1", "alice", 1)
	b.murder(t, dir)
	b.keep(t, b.Mounter, Session{"s-1", "alice"})
	xrdtest.Eventually(t, "it is healed", reads(filepath.Join(dir, "eos/a"), "content"))
	if n := len(b.mounted("s-1")[filepath.Join(dir, "eos")]); n != 1 {
		t.Errorf("%d mounts lie on each other", n)
	}
}

func TestServiceThatStartsAnewKeepsMounts(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	origin.Put("a", "content")
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
	dir := b.open(t, "s-1", "alice", 1)
	b.open(t, "s-2", "bob", 1)
	f, err := os.Open(filepath.Join(dir, "eos/a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := b.processes(filepath.Join(b.cfg.RunDir, "s-1") + "/")
	next := b.restart(t)
	b.keep(t, next, Session{"s-1", "alice"}) // s-2 has ended meanwhile
	xrdtest.Eventually(t, "what s-2 had is gone", func() error {
		if n := len(next.mounted("s-2")) + len(next.processes(filepath.Join(b.cfg.RunDir, "s-2")+"/")); n > 0 {
			return fmt.Errorf("%d are there", n)
		}
		return nil
	})
	if after := next.processes(filepath.Join(b.cfg.RunDir, "s-1") + "/"); fmt.Sprint(before) != fmt.Sprint(after) || len(after) != 1 {
		t.Errorf("processes before %v, after %v", before, after)
	}
	if err := next.Forget("s-2"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(b.cfg.Dir, "s-2")); !os.IsNotExist(err) {
		t.Errorf("its directory: %v", err)
	}
	if got := make([]byte, 7); true {
		if _, err := f.Read(got); err != nil || string(got) != "content" {
			t.Errorf("an open file gives %q, %v", got, err)
		}
	}
}

func TestSessionThatStartsMeanwhileKeepsMounts(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
	var before []int
	b.round(t.Context(), func() []Session {
		b.open(t, "s-1", "alice", 1) // just after the list was made
		before = b.processes(b.cfg.RunDir)
		return nil
	})
	if after := b.processes(b.cfg.RunDir); len(before) != 1 || fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("processes before %v, after %v", before, after)
	}
	b.round(t.Context(), func() []Session { return nil }) // now it has ended
	if n := len(b.mounted("s-1")); n > 0 {
		t.Errorf("%d mounts are left", n)
	}
}

func TestStartTakesNoNoticeOfDeadMount(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	origin.Put("a", "content")
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
	dir := b.open(t, "s-1", "alice", 1)
	b.murder(t, dir)
	if _, err := b.Open(Session{"s-1", "alice"}, func(string) {}); err != nil {
		t.Error(err)
	}
	xrdtest.Eventually(t, "it is healed", reads(filepath.Join(dir, "eos/a"), "content"))
}

func TestBusyMountGoesWithItsSession(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	origin.Put("a", "content")
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
	dir := b.open(t, "s-1", "alice", 1)
	xrdtest.Eventually(t, "it is there", reads(filepath.Join(dir, "eos/a"), "content"))
	busy := exec.Command("sleep", "100")
	busy.Dir = filepath.Join(dir, "eos")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() })
	b.Await("s-1", xrdtest.Patience)
	b.Mounter.cfg.Patience = time.Second // nothing begins any more that has it
	b.Close("s-1")
	if told := b.heard(); !strings.Contains(told, "/storage/eos may not be in the storage, which did not answer at the end") {
		t.Errorf("told: %q", told)
	}
	if n, pids := len(b.mounted("s-1")), b.processes(b.cfg.RunDir); n > 0 || len(pids) > 0 {
		t.Errorf("left: %d mounts, processes %v", n, pids)
	}
	if left, _ := os.ReadDir(b.cfg.RunDir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(origin.Data, "a")); err != nil {
		t.Errorf("the user's file: %v", err)
	}
}

func TestNothingHidesInSessionIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	for _, id := range []string{"", "..", "../x", "a/b", "A", "s-1\n"} {
		if _, err := b.Open(Session{id, "alice"}, func(string) {}); err == nil {
			t.Errorf("%q is taken", id)
		}
	}
}
