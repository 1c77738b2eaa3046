package worker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// get fetches through a cache, and reads what it got.
func get(t *testing.T, c *cache, s *shop, digits string) (string, func()) {
	t.Helper()
	path, release, err := c.get(t.Context(), digits, int64(len(s.image)), func(ctx context.Context, f *os.File) error { return s.download(t).into(ctx, f) })
	must(t, err)
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b, s.image) {
		t.Errorf("%s: %d bytes, %v", path, len(b), err)
	}
	return path, release
}

func openTestCache(t *testing.T, dir string, most int64) *cache {
	t.Helper()
	c, err := openCache(dir, most, slog.New(slog.DiscardHandler))
	must(t, err)
	return c
}

func name(i int) string { return fmt.Sprintf("%064x", i) }

// Many runs of a node fetch an image once.
func TestCacheFetchesOnce(t *testing.T) {
	s := newShop(t, fakeImage(1<<20, 'x'))
	dir := filepath.Join(t.TempDir(), "images")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, release := get(t, openTestCache(t, dir, 0), s, name(1))
			release()
		})
	}
	all.Wait()
	if s.count() != 1 {
		t.Errorf("%d requests", s.count())
	}
	damaged := filepath.Join(dir+"-"+strconv.Itoa(os.Getuid()), name(1)+".sif")
	must(t, os.Truncate(damaged, 1000))
	_, release := get(t, openTestCache(t, dir, 0), s, name(1))
	release()
	if s.count() != 2 {
		t.Errorf("a damaged image: %d requests", s.count())
	}
}

// What is used stays, and of the rest what was used last.
func TestCacheMakesRoom(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	c := openTestCache(t, dir, 3500)
	s := newShop(t, fakeImage(1000, 'x'))
	_, held := get(t, c, s, name(1))
	for i, age := range map[int]time.Duration{2: 2 * time.Hour, 3: 3 * time.Hour} {
		path, release := get(t, c, s, name(i))
		release()
		then := time.Now().Add(-age)
		must(t, os.Chtimes(path, then, then))
	}
	must(t, os.Chtimes(filepath.Join(c.dir, name(1)+".sif"), time.Unix(0, 0), time.Unix(0, 0))) // long unused, but held
	forgotten := filepath.Join(c.dir, name(9)+".part")
	must(t, os.WriteFile(forgotten, nil, 0o600), os.WriteFile(filepath.Join(c.dir, name(9)+".lock"), nil, 0o600), os.Chtimes(forgotten, time.Unix(0, 0), time.Unix(0, 0)))
	_, release := get(t, c, s, name(4))
	release()
	have := func() (list string) {
		for i := range 6 {
			if _, err := os.Stat(filepath.Join(c.dir, name(i)+".sif")); err == nil {
				list += strconv.Itoa(i)
			}
		}
		return list
	}
	if got := have(); got != "124" {
		t.Errorf("it has %s", got)
	}
	if _, err := os.Stat(forgotten); !os.IsNotExist(err) {
		t.Errorf("what nobody went on with: %v", err)
	}
	held()
	big := newShop(t, fakeImage(3000, 'x'))
	_, release = get(t, c, big, name(5))
	release()
	if got := have(); got != "5" {
		t.Errorf("after a large one it has %s", got)
	}
	if _, _, err := c.get(t.Context(), name(0), 4000, nil); err == nil || !errs.Is(noRoom(err), errs.NoSpace) {
		t.Errorf("larger than the cache: %v", err)
	}
}

// A broken download is gone on with by the next run.
func TestCacheGoesOn(t *testing.T) {
	image := fakeImage(1<<20, 'x')
	s := newShop(t, image)
	s.faults = []http.HandlerFunc{s.breaks(500_000), status(404)} // nobody asks yet
	c := openTestCache(t, filepath.Join(t.TempDir(), "images"), 0)
	if _, _, err := c.get(t.Context(), name(1), 0, func(ctx context.Context, f *os.File) error { return s.download(t).into(ctx, f) }); !errs.Is(err, errs.NotFound) {
		t.Errorf("broken: %v", err)
	}
	_, release := get(t, c, s, name(1))
	release()
	if got := s.ranges(); got != ",bytes=500000-,bytes=500000-" {
		t.Errorf("asked for %q", got)
	}
}

// What others can change is not trusted: her images are beside it then, or nowhere.
func TestCacheTrusts(t *testing.T) {
	testenv.Need(t, testenv.Root) // for directories of another user's
	me, log := strconv.Itoa(os.Getuid()), slog.New(slog.DiscardHandler)
	foreign := func(path string) error { return os.Lchown(path, nobody, nobody) }
	for what, tc := range map[string]struct {
		make   func(dir string) error
		beside bool // there is room for her beside it
	}{
		"a directory that anybody may change": {func(dir string) error { return os.Chmod(dir, 0o777) }, true},
		"a directory of somebody else's":      {foreign, true},
		"a link of somebody else's": {func(dir string) error {
			return joinAll(os.Remove(dir), os.Symlink("/var", dir), foreign(dir))
		}, true},
		"a part of somebody else's": {func(dir string) error {
			return joinAll(os.Mkdir(filepath.Join(dir, me), 0o700), foreign(filepath.Join(dir, me)))
		}, true},
		"a part that others read": {func(dir string) error { return os.Mkdir(filepath.Join(dir, me), 0o755) }, true},
		"a part that is a link":   {func(dir string) error { return os.Symlink("/tmp", filepath.Join(dir, me)) }, true},
		"both are somebody else's": {func(dir string) error {
			return joinAll(foreign(dir), os.Mkdir(dir+"-"+me, 0o700), foreign(dir+"-"+me))
		}, false},
		"a link beside it": {func(dir string) error { return joinAll(foreign(dir), os.Symlink("/tmp", dir+"-"+me)) }, false},
		"somebody else's directory above": {func(dir string) error {
			return joinAll(os.Mkdir(filepath.Join(dir, me), 0o700), foreign(filepath.Dir(dir)))
		}, false},
	} {
		dir := filepath.Join(t.TempDir(), "images")
		must(t, os.Mkdir(dir, 0o755), tc.make(dir))
		c, err := openCache(dir, 0, log)
		if tc.beside && (err != nil || c.dir != dir+"-"+me) || !tc.beside && err == nil {
			t.Errorf("%s: %+v, %v", what, c, err)
		}
	}
}

// TestCacheProvided: what root has put there is everybody's, and what somebody else could have put there nobody's.
func TestCacheProvided(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	provided := filepath.Join(dir, name(1)+".sif")
	make := func() error {
		return joinAll(os.WriteFile(provided, fakeImage(1000, 'x'), 0o644), os.Chmod(provided, 0o644), os.Chown(provided, 0, 0))
	}
	must(t, os.Chmod(dir, os.ModeSticky|0o777), make())
	c := openTestCache(t, dir, 0)
	if path, release := get(t, c, &shop{image: fakeImage(1000, 'x')}, name(1)); path != provided {
		t.Errorf("it gives %s", path)
	} else {
		release()
	}
	for what, spoil := range map[string]func() error{
		"of somebody else":          func() error { return os.Chown(provided, nobody, nobody) },
		"writable":                  func() error { return os.Chmod(provided, 0o666) },
		"a second name of another":  func() error { return os.Link(provided, filepath.Join(dir, name(2)+".sif")) },
		"a link":                    func() error { return joinAll(os.Rename(provided, provided+"x"), os.Symlink(provided+"x", provided)) },
		"a pipe that nobody writes": func() error { return syscall.Mkfifo(provided, 0o644) },
	} {
		_ = os.Remove(provided)
		_ = os.Remove(filepath.Join(dir, name(2)+".sif"))
		if !strings.HasPrefix(what, "a pipe") {
			must(t, make())
		}
		must(t, spoil())
		if got := c.provided(name(1)); got != "" {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// TestCacheUsesItsOwn: what lies in a user's part and is not of her making is neither used nor followed.
func TestCacheUsesItsOwn(t *testing.T) {
	testenv.Need(t, testenv.Root)
	s := newShop(t, fakeImage(1000, 'x'))
	c := openTestCache(t, filepath.Join(t.TempDir(), "images"), 0)
	elsewhere := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(elsewhere, fakeImage(1000, 'y'), 0o644))
	at := filepath.Join(c.dir, name(1)+".sif")
	for what, spoil := range map[string]func() error{
		"a link":        func() error { return os.Symlink(elsewhere, at) },
		"a second name": func() error { return os.Link(elsewhere, at) },
		"another's": func() error {
			return joinAll(os.WriteFile(at, fakeImage(1000, 'y'), 0o644), os.Chown(at, nobody, nobody))
		},
		"a pipe": func() error { return syscall.Mkfifo(at, 0o600) },
	} {
		_ = os.Remove(at)
		must(t, spoil())
		before := s.count()
		_, release := get(t, c, s, name(1))
		release()
		if s.count() != before+1 {
			t.Errorf("%s was used", what)
		}
	}
	if b, err := os.ReadFile(elsewhere); err != nil || !bytes.Equal(b, fakeImage(1000, 'y')) {
		t.Errorf("what it led to: %d bytes, %v", len(b), err)
	}
}

func joinAll(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestFetchedImage: two runs of one node get an image from the service, and fetch it once.
func TestFetchedImage(t *testing.T) {
	first := newNode(t, "echo here")
	image, err := os.ReadFile(first.plan.Image.Path)
	must(t, err)
	s := newShop(t, image)
	dir := filepath.Join(shared(), "cache")
	must(t, os.Mkdir(dir, 0o755), os.Chmod(dir, os.ModeSticky|0o777))
	for _, n := range []*node{first, newNode(t, "echo here")} {
		n.plan.Image.Path, n.plan.Cache, n.link = filepath.Join(shared(), "nowhere.sif"), dir, s.uplink()
		if code, e := n.run(); code != 0 || n.out(LogFile) != "here\n" {
			t.Errorf("code %d, %+v, %s", code, e, n.out(LogFile))
		}
	}
	if s.count() != 1 {
		t.Errorf("%d requests", s.count())
	}
	n := newNode(t, "echo here")
	n.plan.Image.Path, n.plan.Cache, n.link = "", "", s.uplink()
	if code, e := n.run(); code != 0 || s.count() != 2 {
		t.Errorf("without a cache: code %d, %+v, %d requests", code, e, s.count())
	}
}

// TestEndedWhileFetching: who is asked to end does not wait for the image, and what has come of it stays for the next
// run.
func TestEndedWhileFetching(t *testing.T) {
	n := newNode(t, "echo here")
	image, err := os.ReadFile(n.plan.Image.Path)
	must(t, err)
	half := make(chan struct{})
	s := newShop(t, image, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(image)))
		_, _ = w.Write(image[:len(image)/2])
		_ = http.NewResponseController(w).Flush()
		close(half)
		<-r.Context().Done()
	})
	n.plan.Image.Path, n.plan.Cache, n.link = "", filepath.Join(shared(), "ended"), s.uplink()
	must(t, os.Mkdir(n.plan.Cache, 0o755), os.Chmod(n.plan.Cache, os.ModeSticky|0o777))
	n.send()
	n.start()
	<-half
	part := filepath.Join(n.plan.Cache, strconv.Itoa(nobody), strings.TrimPrefix(n.plan.Image.Digest, "sha256:")+partExt)
	until(t, "half of the image has come", func() bool { st, err := os.Stat(part); return err == nil && st.Size() == int64(len(image)/2) })
	must(t, n.cmd.Process.Signal(syscall.SIGTERM))
	if code, e := n.wait(); code != 143 || !strings.Contains(e.Reason, "before it had started") {
		t.Errorf("code %d, %+v", code, e)
	}
	again := newNode(t, "echo here")
	again.plan.Image.Path, again.plan.Cache, again.link = "", n.plan.Cache, s.uplink()
	if code, e := again.run(); code != 0 || s.ranges() != fmt.Sprintf(",bytes=%d-", len(image)/2) {
		t.Errorf("the next run: code %d, %+v, asked for %s", code, e, s.ranges())
	}
}
