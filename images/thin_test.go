package images

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/records"
	"slipway/images/sif"
	"slipway/internal/errs"
)

// onDisk adds up what a directory takes, each file once however many names it has.
func onDisk(t testing.TB, dir string) (n int64) {
	t.Helper()
	seen := map[uint64]bool{}
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err != nil || unix.Lstat(path, &st) != nil || seen[st.Ino] {
			return err
		}
		seen[st.Ino] = true
		n += st.Blocks * 512
		return nil
	}))
	return n
}

// words writes a file of about that many bytes of which no two are alike.
func words(path string, seed uint64, size int) func(string) error {
	return func(root string) error {
		r := rand.New(rand.NewPCG(seed, 1))
		var b strings.Builder
		for b.Len() < size {
			fmt.Fprintf(&b, "%x ", r.Uint64())
		}
		return write(filepath.Join(root, path), b.String())
	}
}

// TestAFreezeAfterAnotherStoresWhatHasChanged: the second one takes little of the disk, and is what one from scratch
// is, byte for byte.
func TestAFreezeAfterAnotherStoresWhatHasChanged(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	for i := range 40 {
		f.change(words(fmt.Sprintf("opt/data/%d", i), uint64(i), 400_000))
	}
	l, scratch := newLibrary(t), newLibrary(t)
	frozenThin(t, l, f, nil)
	before := onDisk(t, string(l.dir))
	f.change(words("opt/data/7", 1000, 100_000))
	e := frozenThin(t, l, f, nil)
	if grown := onDisk(t, string(l.dir)) - before; grown > before/8 {
		t.Errorf("the library grew by %d bytes, from %d", grown, before)
	}
	other := freeze(t, scratch, f, nil)
	path, err := l.Ready(t.Context(), e.Digest)
	must(t, err)
	want, err := os.ReadFile(scratch.dir.Image(other.Digest))
	must(t, err)
	if e.Digest != other.Digest || !sameFile(t, path, want) {
		t.Errorf("frozen after another: %s, from scratch: %s, or other bytes", e.Digest, other.Digest)
	}
	equalTrees(t, l, f, e)
}

// TestThinImagesAreFilledAndFolded: an environment outlives the one that it shares with, is signed while it is thin,
// and is the same file whenever it is filled.
func TestThinImagesAreFilledAndFolded(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	f.change(words("opt/data", 1, 3_000_000))
	var leap time.Duration
	l := openLibrary(t, Config{
		Dir: filepath.Join(t.TempDir(), "l"), Keys: keysIn(t, filepath.Join(t.TempDir(), "keys")), Now: func() time.Time { return time.Now().Add(leap) },
	})
	first := frozenThin(t, l, f, nil)
	f.change(words("opt/more", 2, 10_000))
	second := frozenThin(t, l, f, nil)
	_, err := l.Records.Remove("alice", first.Digest)
	must(t, err, l.removeEnvironment(libdir.HexOrNone(first.Digest)), l.settle(t.Context(), second.Digest))
	if !l.isThin(second.Digest) {
		t.Error("settling has filled the image")
	}
	if v, err := l.Verify(t.Context(), second.Digest); err != nil || len(v.Signers) != 1 {
		t.Errorf("a thin image: %+v, %v", v.Signers, err)
	}
	parts, err := l.Parts(second.Digest)
	must(t, err)
	for _, digest := range []string{parts.Document.Tail.Digest, parts.Document.Base.Digest, parts.Document.Manifest.Digest} {
		b, err := parts.Blob(t.Context(), digest)
		must(t, err)
		sum := blob.NewHasher(io.Discard)
		_, err = io.Copy(sum, blob.Reader(b))
		if must(t, err, b.Close()); sum.Digest() != digest {
			t.Errorf("the part %s of a thin image has the digest %s", digest, sum.Digest())
		}
	}
	opened, err := parts.OpenSIF()
	must(t, err)
	shipped, err := io.ReadAll(blob.Reader(opened))
	must(t, err, opened.Close())
	if _, err := l.Thaw(t.Context(), second.Digest); err != nil && !errs.Is(err, errs.Forbidden) {
		t.Error(err)
	}
	path, err := l.Ready(t.Context(), second.Digest)
	must(t, err)
	if !sameFile(t, path, shipped) {
		t.Error("what is shipped of a thin image is not the image")
	}
	signed, err := os.ReadFile(path)
	must(t, err)
	equalTrees(t, l, f, second)
	facts, err := l.facts(second.Digest)
	if must(t, err); facts.SIF.Digest != blob.Digest(signed) {
		t.Errorf("the signed file has the digest %s, not %s", blob.Digest(signed), facts.SIF.Digest)
	}
	must(t, l.fold(t.Context(), nil))
	if l.isThin(second.Digest) {
		t.Error("it is thin at once")
	}
	leap = 2 * foldAfter
	must(t, l.fold(t.Context(), map[string]bool{second.Digest: true}))
	if l.isThin(second.Digest) {
		t.Error("one that is in use is thin")
	}
	packs, err := filepath.Glob(l.dir.Path("tails", libdir.HexOrNone(second.Digest), "*.pack"))
	must(t, err)
	flip := func() {
		for _, pack := range packs {
			flipBit(t, pack, 100)
		}
	}
	flip()
	if err := l.fold(t.Context(), nil); err == nil || l.isThin(second.Digest) {
		t.Errorf("made thin over a damaged pack: %v", err)
	}
	flip()
	must(t, l.fold(t.Context(), nil))
	if !l.isThin(second.Digest) {
		t.Error("it was not made thin")
	}
	if st, err := os.Stat(path); err != nil || st.Sys() == nil || onDisk(t, path) > st.Size()/4 {
		t.Errorf("it takes %d bytes of the disk", onDisk(t, path))
	}
	_, err = l.Ready(t.Context(), second.Digest)
	if must(t, err); !sameFile(t, path, signed) {
		t.Error("filled again, it is another file")
	}
	must(t, l.removeEnvironment(libdir.HexOrNone(second.Digest)))
	must(t, l.fold(t.Context(), nil))
	for _, pattern := range []string{"tails/*", "sources/*/*.memory"} {
		if left, _ := filepath.Glob(l.dir.Path(pattern)); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// TestDamagedPartsOfThinImagesAreSeen: no run gets such an image, and a freeze makes it whole.
func TestDamagedPartsOfThinImagesAreSeen(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, l *Library, e records.Environment){
		"pack": func(t *testing.T, l *Library, e records.Environment) { flipBit(t, only(t, l, "tails/*/*.pack"), 100) },
		"no pack": func(t *testing.T, l *Library, e records.Environment) {
			must(t, os.Remove(only(t, l, "tails/*/*.pack")))
		},
		"map": func(t *testing.T, l *Library, e records.Environment) {
			must(t, os.WriteFile(only(t, l, "tails/*/map.json"), []byte("{"), 0o600))
		},
		"head": func(t *testing.T, l *Library, e records.Environment) { flipBit(t, l.dir.Image(e.Digest), 100) },
		"manifest": func(t *testing.T, l *Library, e records.Environment) {
			flipBit(t, l.dir.Image(e.Digest), manifestAt(t, l.dir.Image(e.Digest))+5)
		},
		"super": func(t *testing.T, l *Library, e records.Environment) {
			flipBit(t, l.dir.Image(e.Digest), sif.PartitionOffset+10)
		},
		"mark": func(t *testing.T, l *Library, e records.Environment) { must(t, os.Remove(only(t, l, "tails/*/thin"))) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nastyBase)
			f.change(nastyChanges)
			f.change(words("opt/data", 1, 300_000))
			l := newLibrary(t)
			e := frozenThin(t, l, f, nil)
			spoil(t, l, e)
			if _, err := l.Verify(t.Context(), e.Digest); err == nil {
				t.Error("it is verified")
			}
			if _, err := l.Ready(t.Context(), e.Digest); err == nil {
				t.Error("it is ready for a run")
			}
			f.change(words("opt/other", 1, 1000)) // and what comes of it later is sound too
			later := frozenThin(t, l, f, nil)
			if _, err := l.Ready(t.Context(), later.Digest); err != nil {
				t.Errorf("the next freeze: %v", err)
			}
			equalTrees(t, l, f, later)
			f.change(func(root string) error { return os.Remove(filepath.Join(root, "opt/other")) })
			frozenThin(t, l, f, nil)
		})
	}
}

// BenchmarkFreezeAgain changes 1 MB of a session that has changed 219 MB, and freezes it again.
func BenchmarkFreezeAgain(b *testing.B) {
	f := newFixture(b, bulk(1, 2000, 10<<10))
	f.change(bulk(2, 18000, 12<<10))
	l := newLibrary(b)
	again := func() time.Duration {
		start := time.Now()
		_, err := l.Freeze(context.Background(), Request{Owner: "alice", Key: "s1", Source: f.source()})
		must(b, err)
		return time.Since(start)
	}
	b.ReportMetric(again().Seconds(), "first-s")
	var took time.Duration
	before := onDisk(b, string(l.dir))
	for i := range b.N {
		must(b, words("usr/lib/changed", uint64(i), 1<<20)(f.upper))
		unix.Sync()
		took += again()
	}
	b.ReportMetric(took.Seconds()/float64(b.N), "again-s")
	b.ReportMetric(float64(onDisk(b, string(l.dir))-before)/float64(b.N)/1e6, "MB-again")
}
