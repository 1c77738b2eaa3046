package images

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/sif"
	"slipway/internal/errs"
)

// flipBit changes one byte of a file and keeps its size.
func flipBit(t *testing.T, path string, off int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, off)
	must(t, err)
	b[0] ^= 0x40
	_, err = f.WriteAt(b, off)
	must(t, err)
}

// manifestAt says where an image's manifest begins; its tail ends there.
func manifestAt(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	st, err := f.Stat()
	must(t, err)
	image, err := sif.Open(f, st.Size())
	must(t, err)
	return image.Manifest.Offset
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	must(t, err)
	return st.Size()
}

func only(t *testing.T, l *Library, pattern string) string {
	t.Helper()
	list, err := filepath.Glob(l.dir.Path(pattern))
	if must(t, err); len(list) != 1 {
		t.Fatalf("%s matches %q", pattern, list)
	}
	return list[0]
}

// TestDamagedBaseIsMadeAnew spoils a base between two runs of the service: no environment is made of what it holds
// then.
func TestDamagedBaseIsMadeAnew(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"contents": func(t *testing.T, path string) { flipBit(t, path, 200) },
		"tables":   func(t *testing.T, path string) { flipBit(t, path, 900) },
		"head":     func(t *testing.T, path string) { flipBit(t, path, 0) },
		"shorter":  func(t *testing.T, path string) { must(t, os.Truncate(path, 2000)) },
		"gone":     func(t *testing.T, path string) { must(t, os.Remove(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nastyBase, func(root string) error {
				return write(filepath.Join(root, "usr/much"), strings.Repeat("the base's own words\n", 9000))
			})
			f.change(nastyChanges)
			dir := filepath.Join(t.TempDir(), "l")
			l := openLibrary(t, Config{Dir: dir})
			first := freeze(t, l, f, nil)
			must(t, l.Close())
			spoil(t, only(t, l, "bases/*.sqfs"))

			l = openLibrary(t, Config{Dir: dir})
			thawed, err := l.Thaw(t.Context(), first.Digest)
			must(t, err)
			if err := thawed.Fill(t.Context(), t.TempDir()); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "freeze a session") {
				t.Errorf("thawed from it: %v", err)
			}
			again := freeze(t, l, f, func(r *Request) { r.Key = "s2" })
			if _, err := l.Verify(t.Context(), again.Digest); err != nil || again.Digest != first.Digest {
				t.Errorf("frozen again: %s, not %s, %v", again.Digest, first.Digest, err)
			}
			equalTrees(t, l, f, again)
			if err := thawed.Fill(t.Context(), t.TempDir()); err != nil {
				t.Errorf("thawed from the new base: %v", err)
			}
		})
	}
}

// TestDamagedEnvironmentIsToldAndFrozenAnew spoils each file of an environment: no run gets it, and a freeze makes it
// whole.
func TestDamagedEnvironmentIsToldAndFrozenAnew(t *testing.T) {
	for name, tc := range map[string]struct {
		pattern string
		spoil   func(t *testing.T, path string)
	}{
		"contents":     {"blobs/*.sif", func(t *testing.T, path string) { flipBit(t, path, sif.PartitionOffset+300) }},
		"head":         {"blobs/*.sif", func(t *testing.T, path string) { flipBit(t, path, 100) }},
		"superblock":   {"blobs/*.sif", func(t *testing.T, path string) { flipBit(t, path, sif.PartitionOffset+10) }},
		"tail":         {"blobs/*.sif", func(t *testing.T, path string) { flipBit(t, path, manifestAt(t, path)-1) }},
		"manifest":     {"blobs/*.sif", func(t *testing.T, path string) { flipBit(t, path, manifestAt(t, path)+5) }},
		"signature":    {"blobs/*.sif", func(t *testing.T, path string) { flipBit(t, path, sizeOf(t, path)-9) }},
		"shorter":      {"blobs/*.sif", func(t *testing.T, path string) { must(t, os.Truncate(path, 40000)) }},
		"document":     {"documents/*.json", func(t *testing.T, path string) { flipBit(t, path, 20) }},
		"no document":  {"documents/*.json", func(t *testing.T, path string) { must(t, os.Remove(path)) }},
		"half a thing": {"documents/*.json", func(t *testing.T, path string) { must(t, os.Truncate(path, 30)) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nastyBase)
			f.change(nastyChanges)
			dir, keys := filepath.Join(t.TempDir(), "l"), keysIn(t, filepath.Join(t.TempDir(), "keys"))
			l := openLibrary(t, Config{Dir: dir, Keys: keys})
			first := freeze(t, l, f, nil)
			_, err := l.About(t.Context(), first.Digest)
			must(t, err, l.Close())
			tc.spoil(t, only(t, l, tc.pattern))

			l = openLibrary(t, Config{Dir: dir, Keys: keys})
			if _, err := l.Ready(t.Context(), first.Digest); err == nil {
				t.Error("it is ready for a run")
			}
			again := freeze(t, l, f, nil)
			if again.Unchanged || again.Digest != first.Digest {
				t.Errorf("frozen again: %s, unchanged %v, not %s", again.Digest, again.Unchanged, first.Digest)
			}
			if _, err := l.Ready(t.Context(), first.Digest); err != nil {
				t.Error(err)
			}
			about, err := l.About(t.Context(), first.Digest)
			must(t, err, l.settle(t.Context(), first.Digest))
			if v, err := l.Verify(t.Context(), first.Digest); err != nil || len(v.Signers) != 1 || about.SIF.Size == 0 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// TestUnknownDamageIsReplaced: a freeze of the tree of an image that is spoilt, which nobody knows, puts the right one
// in its place.
func TestUnknownDamageIsReplaced(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	e := freeze(t, l, f, nil)
	flipBit(t, l.dir.Image(e.Digest), sif.PartitionOffset+300)
	freeze(t, l, f, func(r *Request) { r.Key = "s2" })
	if _, err := l.Ready(t.Context(), e.Digest); err != nil {
		t.Errorf("err = %v", err)
	}
}

func TestUnreadableFactsAreFoundOutAnew(t *testing.T) {
	f := newFixture(t, nastyBase, nastyTop)
	l := newLibrary(t)
	e := freeze(t, l, f, nil)
	want, err := l.About(t.Context(), e.Digest)
	must(t, err)
	for _, garbage := range []string{"", "{", "[]", `{"sif":{"size":"x"}}`} {
		must(t, os.WriteFile(l.dir.Path("facts", libdir.HexOrNone(e.Digest)+".json"), []byte(garbage), 0o600))
		got, err := l.About(t.Context(), e.Digest)
		if err != nil || got.SIF != want.SIF || len(got.Inventory.Packages) != len(want.Inventory.Packages) {
			t.Errorf("%q: %+v, %v", garbage, got.SIF, err)
		}
	}
	must(t, os.WriteFile(only(t, l, "sources/alice/*.json"), bytes.Repeat([]byte("["), 100000), 0o600))
	if again := freeze(t, l, f, nil); again.Digest != e.Digest {
		t.Errorf("%+v", again)
	}
}

// TestDamagedStatementIsMadeAnew: a statement that is not believed any more counts as none, and the next freeze makes
// another.
func TestDamagedStatementIsMadeAnew(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := openLibrary(t, Config{Dir: filepath.Join(t.TempDir(), "l"), Keys: keysIn(t, filepath.Join(t.TempDir(), "keys"))})
	source := func(r *Request) { r.Source.Base.Digest = blob.Digest([]byte("base")) }
	e := freeze(t, l, f, source)
	flipBit(t, only(t, l, "statements/*/*.json"), 70)
	if v, err := l.Verify(t.Context(), e.Digest); err != nil || len(v.Stated) != 0 {
		t.Errorf("believed: %+v, %v", v.Stated, err)
	}
	if again := freeze(t, l, f, source); !again.Unchanged || again.Digest != e.Digest {
		t.Errorf("frozen again: %+v", again)
	}
	if v, err := l.Verify(t.Context(), e.Digest); err != nil || len(v.Stated) != 1 {
		t.Errorf("stated %+v, %v", v.Stated, err)
	}
}
