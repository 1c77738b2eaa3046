package replication

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/images/blob"
	"slipway/images/blobstore"
	"slipway/internal/errs"
)

// shop is a library of made-up environments, and two stores.
type shop struct {
	t       *testing.T
	dir     string
	mu      sync.Mutex        // of the library's three
	content map[string][]byte // by digest
	envs    map[string][]Part // by digest of the document
	ready   []string
	a, b    *store
	end     func() // of the run
}

// store is a directory that breaks on demand.
type store struct {
	blobstore.Store
	mu       sync.Mutex
	put, get error
	puts     int // that were tried
	stuck    bool
}

func (s *store) Put(ctx context.Context, digest string, b blob.Blob) error {
	s.mu.Lock()
	s.puts++
	err, stuck := s.put, s.stuck
	s.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	return s.Store.Put(ctx, digest, b)
}

func (s *store) Get(ctx context.Context, digest string, offset, length int64) (io.ReadCloser, error) {
	if err := s.silent(); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, digest, offset, length)
}

func (s *store) Stat(ctx context.Context, digest string) (blobstore.Info, error) {
	if err := s.silent(); err != nil {
		return blobstore.Info{}, err
	}
	return s.Store.Stat(ctx, digest)
}

// silent gives why nothing is read.
func (s *store) silent() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get
}

// set changes what the store does.
func (s *store) set(change func(*store)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *store) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put = err
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, dir: t.TempDir(), content: map[string][]byte{}, envs: map[string][]Part{}, end: func() {}}
	s.a, s.b = s.store("a"), s.store("b")
	return s
}

func (s *shop) store(name string) *store {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		s.t.Fatal(err)
	}
	d, err := blobstore.OpenDir(blobstore.DirConfig{Path: path, Existing: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return &store{Store: d}
}

// add makes an environment of a base and a tail.
func (s *shop) add(base, tail string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []Part
	for _, text := range []string{base, tail, "document of " + base + " and " + tail} {
		digest := blob.Digest([]byte(text))
		s.content[digest] = []byte(text)
		parts = append(parts, Part{digest, int64(len(text))})
	}
	name := parts[2].Digest
	s.envs[name], s.ready = parts, append(s.ready, name)
	return name
}

// holds replaces the list of what the library has.
func (s *shop) holds(list ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = list
}

func (s *shop) listed() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ready), nil
}

func (s *shop) find(digest string) (Environment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.envs[digest] == nil {
		return Environment{}, errs.New(errs.Conflict, "it is damaged")
	}
	return Environment{Parts: s.envs[digest], Open: func(_ context.Context, digest string) (blob.Blob, error) { return blob.Bytes(s.bytes(digest)), nil }}, nil
}

func (s *shop) bytes(digest string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content[digest]
}

// damage changes a content, and gives what it was.
func (s *shop) damage(digest string, content []byte) (before []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.content[digest] = s.content[digest], content
	return before
}

// tries says how often something was to be written.
func (s *store) tries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts
}

// open starts again: what is not on disk is forgotten.
func (s *shop) open() *Replicator {
	s.t.Helper()
	c, err := New(Config{
		Dir: filepath.Join(s.dir, "state"), Stores: []blobstore.Member{{Name: "a", Store: s.a}, {Name: "b", Store: s.b}},
		Ready: s.listed, Known: s.listed,
		Find:   s.find,
		Logger: slog.New(slog.NewTextHandler(s.t.Output(), nil)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// run starts the copies, in a bubble of synctest.
func (s *shop) run() *Replicator {
	s.t.Helper()
	c := s.open()
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	s.end = func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
	synctest.Wait()
	return c
}

func stored(list []Copy) (out string) {
	for _, c := range list {
		if !c.Since.IsZero() {
			out += c.Store
		}
	}
	return out
}

func TestCopiesAreWrittenReadAndLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		first, second := s.add("base", "one"), s.add("base", "two")
		c := s.run()
		if stored(c.Of(first)) != "ab" || stored(c.Of(second)) != "ab" || s.a.tries() != 6 {
			t.Errorf("%+v, %+v after %d writes", c.Of(first), c.Of(second), s.a.tries())
		}
		third := s.add("base", "three")
		if got := c.Of(third); stored(got) != "" || got[0].Problem != nil {
			t.Errorf("before its turn: %+v", got)
		}
		time.Sleep(lookEvery)
		synctest.Wait()
		if stored(c.Of(third)) != "ab" {
			t.Errorf("a new one: %+v", c.Of(third))
		}
		s.end()
		before := s.a.tries()
		c = s.run() // a second service
		if stats := c.Stats()[0]; s.a.tries() != before || stats.Stored != 3 || !stats.Up || stats.Waiting != 0 || stats.Bytes == 0 {
			t.Errorf("written again: %d, %+v", s.a.tries()-before, stats)
		}
		into := filepath.Join(s.dir, "back")
		if err := c.Fetch(t.Context(), second, 1000, into); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(into); err != nil || blob.Digest(got) != second {
			t.Errorf("%q, %v", got, err)
		}
		s.holds(second, third) // the first one has gone from the library
		time.Sleep(keepGone)
		if err := c.Fetch(t.Context(), first, 1000, into); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		if err := c.Fetch(t.Context(), first, 1000, into); !errs.Is(err, errs.NotFound) {
			t.Errorf("too late: %v", err)
		}
		if err := c.Fetch(t.Context(), second, 1000, into); err != nil {
			t.Errorf("of the same base: %v", err)
		}
		if err := c.Fetch(t.Context(), blob.Digest([]byte("base")), 1000, into); err != nil {
			t.Errorf("the base: %v", err)
		}
		s.holds() // the library was lost
		time.Sleep(3 * keepGone)
		if err := c.Fetch(t.Context(), second, 1000, into); err != nil {
			t.Errorf("lost with the library: %v", err)
		}
		s.end()
	})
}

func TestAStoreThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.b.fails(errs.New(errs.NoSpace, "the store is full"))
		digest := s.add("base", "one")
		damaged := blob.Digest([]byte("damaged"))
		s.holds(append([]string{damaged}, s.ready...)...)
		c := s.run()
		got := c.Of(digest)
		if stored(got) != "a" || !errs.Is(got[1].Problem, errs.NoSpace) || c.Stats()[1].Up || !c.Stats()[0].Up || c.Stats()[1].Waiting != 2 {
			t.Errorf("%+v, %+v", got, c.Stats())
		}
		if got := c.Of(damaged); stored(got) != "" || !errs.Is(got[0].Problem, errs.Conflict) {
			t.Errorf("%+v", got)
		}
		time.Sleep(10 * time.Hour)
		if tries := s.b.tries(); tries < 10 || tries > 80 {
			t.Errorf("%d tries in ten hours", tries)
		}
		s.end()
		s.b.fails(nil)
		c = s.run()
		if got := c.Of(digest); stored(got) != "ab" || got[1].Problem != nil || !c.Stats()[1].Up {
			t.Errorf("after a restart: %+v", got)
		}
		s.end()
	})
}

func TestAStoreThatHangsIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.a.set(func(s *store) { s.stuck = true })
		digest := s.add("base", "one")
		c := s.run()
		time.Sleep(2 * time.Minute)
		if got := c.Of(digest); stored(got) != "b" || !errs.Is(got[0].Problem, errs.Unavailable) {
			t.Errorf("%+v", got)
		}
		s.end()
	})
}

// TestADamagedCopyIsPassedOverAndWrittenAnew: whoever reads gets the right bytes or none.
func TestADamagedCopyIsPassedOverAndWrittenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		digest := s.add("base", "one")
		base := blob.Digest([]byte("base"))
		c := s.run()
		file := filepath.Join(s.dir, "a", strings.TrimPrefix(base, "sha256:"))
		into := filepath.Join(s.dir, "back")
		for _, bad := range []string{"BASE", "ba", "a base of another size altogether"} {
			if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.Fetch(t.Context(), base, 10, into); err != nil {
				t.Errorf("%q: %v", bad, err)
			}
			if got, err := os.ReadFile(into); err != nil || string(got) != "base" {
				t.Errorf("%q: %q, %v", bad, got, err)
			}
			if stored(c.Of(digest)) != "b" {
				t.Errorf("%q: %+v", bad, c.Of(digest))
			}
			time.Sleep(lookEvery)
			synctest.Wait()
			if got, err := os.ReadFile(file); err != nil || string(got) != "base" || stored(c.Of(digest)) != "ab" {
				t.Errorf("not healed: %q, %v", got, err)
			}
		}
		if c.Stats()[0].Damaged != 3 {
			t.Errorf("%+v", c.Stats()[0])
		}
		s.a.set(func(s *store) { s.get = errors.New("down") })
		s.b.set(func(s *store) { s.get = errors.New("down too") })
		if err := c.Fetch(t.Context(), base, 10, into); !errs.Is(err, errs.Unavailable) {
			t.Errorf("all are down: %v", err)
		}
		s.a.set(func(s *store) { s.get = nil })
		if err := c.Fetch(t.Context(), base, 10, into); err != nil {
			t.Errorf("one is down: %v", err)
		}
		s.b.set(func(s *store) { s.get = nil })
		if err := errors.Join(os.Remove(file), os.Remove(filepath.Join(s.dir, "b", filepath.Base(file)))); err != nil {
			t.Fatal(err)
		}
		if err := c.Fetch(t.Context(), base, 10, into); !errs.Is(err, errs.NotFound) {
			t.Errorf("nobody has it: %v", err)
		}
		time.Sleep(checkEvery + lookEvery) // it looks whether copies have gone
		synctest.Wait()
		if err := c.Fetch(t.Context(), base, 10, into); err != nil || stored(c.Of(digest)) != "ab" {
			t.Errorf("copies that went: %v, %+v", err, c.Of(digest))
		}
		s.end()
	})
}

// TestADamagedCopyStaysUntilThereIsBetter: what came may have been damaged on the way, and be all that is left.
func TestADamagedCopyStaysUntilThereIsBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		digest := s.add("base", "one")
		base := blob.Digest([]byte("base"))
		c := s.run()
		file := filepath.Join(s.dir, "a", strings.TrimPrefix(base, "sha256:"))
		if err := os.WriteFile(file, []byte("BASE"), 0o600); err != nil {
			t.Fatal(err)
		}
		good := s.damage(base, []byte("bAse")) // damaged here too
		if err := c.Fetch(t.Context(), base, 10, filepath.Join(s.dir, "back")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, err := os.ReadFile(file); err != nil || string(got) != "BASE" || !errs.Is(c.Of(digest)[0].Problem, errs.Invalid) {
			t.Errorf("%q, %v, %+v", got, err, c.Of(digest))
		}
		s.end()
		s.damage(base, good)
		c = s.run() // after a restart it is still known that the copy is wrong
		if got, err := os.ReadFile(file); err != nil || string(got) != "base" || stored(c.Of(digest)) != "ab" {
			t.Errorf("not healed: %q, %v", got, err)
		}
		s.end()
	})
}

func TestWhatIsKnownOfACopyMayBeDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		digest := s.add("base", "one")
		s.run()
		s.end()
		path := filepath.Join(s.dir, "state", "a", strings.TrimPrefix(digest, "sha256:")+".json")
		for _, text := range []string{"", "{", `{"digest":"sha256:../../x"}`} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if c := s.run(); stored(c.Of(digest)) != "ab" {
				t.Errorf("%q: %+v", text, c.Of(digest))
			}
			s.end()
		}
	})
}

func TestProbe(t *testing.T) {
	s := newShop(t)
	if err := Probe(t.Context(), s.a, []byte("a probe")); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.dir, "a")); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	s.a.fails(errs.New(errs.NoSpace, "full"))
	if err := Probe(t.Context(), s.a, []byte("a probe")); !errs.Is(err, errs.NoSpace) {
		t.Error(err)
	}
}
