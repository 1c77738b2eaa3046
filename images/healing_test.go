package images

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/sif"
	"slipway/internal/errs"
)

// counted counts what a library logs, by message.
type counted struct {
	slog.Handler
	mu   sync.Mutex
	seen map[string]int
}

func count(t *testing.T, l *Library) *counted {
	c := &counted{Handler: slog.NewTextHandler(t.Output(), nil), seen: map[string]int{}}
	l.log = slog.New(c)
	return c
}

func (c *counted) Handle(ctx context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[r.Message]++
	return c.Handler.Handle(ctx, r)
}

func (c *counted) want(t *testing.T, message string, n int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[message] != n {
		t.Errorf("%q was logged %d times, want %d", message, c.seen[message], n)
	}
}

func resized(size int64) func(t *testing.T, path string) {
	return func(t *testing.T, path string) { must(t, os.Truncate(path, size)) }
}

func appended(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString("x")
	must(t, err, f.Close())
}

// much is a layer that makes a base of some size.
func much(root string) error {
	return write(filepath.Join(root, "usr/much"), strings.Repeat("the base's own words\n", 9000))
}

// TestABaseOfAnotherSizeHeals: one conversion puts another in its place, while the service runs and after it was
// started again.
func TestABaseOfAnotherSizeHeals(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"shorter": resized(2000),
		"longer":  resized(1000000),
		"empty":   resized(0),
		"flipped and longer": func(t *testing.T, path string) {
			flipBit(t, path, 200)
			appended(t, path)
		},
	} {
		for _, again := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " opened again"}[again], func(t *testing.T) {
				f := newFixture(t, nastyBase, much)
				f.change(nastyChanges)
				dir := filepath.Join(t.TempDir(), "l")
				l := openLibrary(t, Config{Dir: dir})
				first := freeze(t, l, f, nil)
				if again {
					must(t, l.Close())
					l = openLibrary(t, Config{Dir: dir})
				}
				spoil(t, only(t, l, "bases/*.sqfs"))
				log := count(t, l)
				for i, content := range []string{"one", "two"} {
					must(t, write(filepath.Join(f.upper, "opt/changed"), content))
					e := freeze(t, l, f, nil)
					if path, err := l.Ready(t.Context(), e.Digest); err != nil || path != l.dir.Image(e.Digest) {
						t.Errorf("freeze %d: not ready: %v", i, err)
					}
					if _, err := l.Verify(t.Context(), e.Digest); err != nil {
						t.Errorf("freeze %d: %v", i, err)
					}
				}
				log.want(t, "converted an image into a base", 1)
				log.want(t, "a damaged base is replaced", 1)
				thawed, err := l.Thaw(t.Context(), first.Digest)
				must(t, err)
				if err := thawed.Fill(t.Context(), t.TempDir()); err != nil {
					t.Errorf("what stood on it does not thaw: %v", err)
				}
			})
		}
	}
}

// TestAdoptionReplacesADamagedBase: what came with an environment takes the place of a base that is not what it is
// named.
func TestAdoptionReplacesADamagedBase(t *testing.T) {
	f := newFixture(t, nastyBase, much)
	f.change(nastyChanges)
	from, to := newLibrary(t), newLibrary(t)
	e := freeze(t, from, f, nil)
	p, err := from.Parts(e.Digest)
	must(t, err)
	must(t, os.WriteFile(to.dir.Base(p.Document.Base.Digest), []byte(strings.Repeat("no base", 1000)), 0o644))
	log := count(t, to)
	_, err = to.Adopt(t.Context(), Adoption{
		Owner: "bob", From: "elsewhere", Document: p.Encoded, Unsigned: true,
		Open: func(digest string) (blob.Blob, error) { return p.Blob(t.Context(), digest) },
	})
	must(t, err)
	log.want(t, "a damaged base is replaced", 1)
	if got, err := to.readBase(t.Context(), p.Document.Base.Part); err != nil || got != p.Document.Base.Part {
		t.Errorf("its base is %+v, %v", got, err)
	}
}

// TestWhatWasOnlyCopiedIsNotTrusted damages a base after it was compared, as a failing disk would: what is made of it
// is refused, and the next freeze makes both anew.
func TestWhatWasOnlyCopiedIsNotTrusted(t *testing.T) {
	f := newFixture(t, nastyBase, much)
	l := newLibrary(t)
	freeze(t, l, f, nil)
	base := only(t, l, "bases/*.sqfs")
	flipBit(t, base, 200)
	file, err := os.Open(base)
	must(t, err)
	st, err := libdir.StampOf(file)
	must(t, err, file.Close())
	l.soundBases.Set(blob.Prefix+strings.TrimSuffix(filepath.Base(base), ".sqfs"), st)

	f.change(nastyChanges)
	e := freeze(t, l, f, nil)
	if _, err := l.Ready(t.Context(), e.Digest); !errs.Is(err, errs.Conflict) {
		t.Errorf("it is ready: %v", err)
	}
	if _, err := l.Verify(t.Context(), e.Digest); !errs.Is(err, errs.Conflict) {
		t.Errorf("it is verified: %v", err)
	}
	again := freeze(t, l, f, nil)
	if _, err := l.Ready(t.Context(), e.Digest); err != nil || again.Digest != e.Digest || again.Unchanged {
		t.Errorf("frozen again: %+v, %v", again, err)
	}
}

// TestNothingIsTrustedUnread: an image that no one has read is compared before its first run, whoever put it there.
func TestNothingIsTrustedUnread(t *testing.T) {
	f := newFixture(t, nastyBase, much)
	l := newLibrary(t)
	e := frozenThin(t, l, f, nil)
	st, err := libdir.StampAt(l.dir.Image(e.Digest))
	must(t, err)
	if _, err := l.Verify(t.Context(), e.Digest); err != nil || l.trusted.Is(e.Digest, st) {
		t.Errorf("trusted before it was read, or while its file has holes: %v", err)
	}
	path, err := l.Ready(t.Context(), e.Digest)
	must(t, err)
	appended(t, path)
	flipBit(t, path, sif.PartitionOffset+300)
	if _, err := l.Ready(t.Context(), e.Digest); !errs.Is(err, errs.Conflict) {
		t.Errorf("after damage: %v", err)
	}
	log := count(t, l)
	if again := freeze(t, l, f, func(r *Request) { r.Key = "s2" }); again.Digest != e.Digest {
		t.Errorf("%s", again.Digest)
	}
	log.want(t, "a damaged image is replaced", 1)
	if _, err := l.Ready(t.Context(), e.Digest); err != nil {
		t.Error(err)
	}
}
