package images

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// brim fills the disk to the last block, and then makes room for free bytes.
func brim(t *testing.T, disk string, free int64) {
	t.Helper()
	ballast := filepath.Join(disk, "ballast")
	must(t, os.RemoveAll(ballast))
	f, err := os.Create(ballast)
	must(t, err)
	defer f.Close()
	var size int64
	for chunk := int64(1 << 20); chunk >= 1<<10; {
		if _, err := f.WriteAt(make([]byte, chunk), size); err != nil {
			chunk /= 2
			continue
		}
		size += chunk
	}
	must(t, f.Truncate(max(0, size-free)), f.Sync())
}

// TestDiskFullWhileItIsSettled leaves ever less space for signature and facts: the environment can be used whatever
// fails, and is settled as soon as there is space.
func TestDiskFullWhileItIsSettled(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Loop)
	f := newFixture(t, nastyBase, nastyTop)
	f.change(nastyChanges)
	disk := smallDisk(t, 16)
	l := openLibrary(t, Config{Dir: filepath.Join(disk, "library"), Keys: keysIn(t, filepath.Join(t.TempDir(), "keys"))})
	e := freeze(t, l, f, nil)
	var failed int
	for _, free := range []int64{0, 1 << 10, 2 << 10, 3 << 10, 4 << 10, 5 << 10, 6 << 10, 8 << 10, 10 << 10, 12 << 10, 1 << 20} {
		t.Run(fmt.Sprint(free), func(t *testing.T) {
			brim(t, disk, free)
			err := l.settle(t.Context(), e.Digest)
			if err != nil {
				failed++
				if !errs.Is(err, errs.NoSpace) {
					t.Errorf("kind %v: %v", errs.KindOf(err), err)
				}
			}
			if _, err := l.Ready(t.Context(), e.Digest); err != nil {
				t.Errorf("not ready: %v", err)
			}
			if _, err := l.Verify(t.Context(), e.Digest); err != nil {
				t.Errorf("not whole: %v", err)
			}
			if _, known := l.Glance(e.Digest); known != (err == nil) {
				t.Errorf("known: %v after %v", known, err)
			}
		})
	}
	if failed < 2 {
		t.Errorf("only %d ran out of space", failed)
	}
	if v, err := l.Verify(t.Context(), e.Digest); err != nil || len(v.Signers) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestDiskFullWhileItIsAttested freezes where only the last small files find no space: either all of it is there, or
// none is visible.
func TestDiskFullWhileItIsAttested(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Loop)
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	disk := smallDisk(t, 16)
	l := openLibrary(t, Config{Dir: filepath.Join(disk, "library"), Keys: keysIn(t, filepath.Join(t.TempDir(), "keys"))})
	must(t, l.Prepare(t.Context(), f.source(), nil))
	st, err := os.Stat(l.dir.Image(freeze(t, l, f, func(r *Request) { r.Key = "first" }).Digest))
	must(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	var rounds, failed int
	step := int64(testenv.Rounds(12, 4)) << 10
	for extra := int64(-8 << 10); extra < 88<<10; extra += step {
		rounds++
		f.change(func(root string) error { return write(filepath.Join(root, "opt/round"), fmt.Sprint(extra)) })
		brim(t, disk, st.Size()+extra)
		before := blobsIn(t, l)
		_, err := l.Freeze(t.Context(), Request{Owner: "alice", Key: fmt.Sprint("s", extra), Name: "ana", Source: f.source()})
		if err != nil {
			failed++
			if !errs.Is(err, errs.NoSpace) {
				t.Errorf("%d: kind %v: %v", extra, errs.KindOf(err), err)
			}
		}
		noLeftovers(t, l)
		if after := blobsIn(t, l); err != nil && after > before {
			t.Errorf("%d: %d images are left of a freeze that failed: %v", extra, after-before, err)
		}
		if err != nil && r.IntN(2) == 0 { // with space, it is made whole
			brim(t, disk, 1<<20)
			freeze(t, l, f, func(r *Request) { r.Key, r.Name = fmt.Sprint("s", extra), "ana" })
		}
		all, listErr := l.Records.List("alice")
		must(t, listErr)
		for _, e := range all {
			if v, err := l.Verify(t.Context(), e.Digest); err != nil || len(v.Stated) == 0 {
				t.Errorf("%d: listed and not whole: %d statements, %v", extra, len(v.Stated), err)
			}
		}
	}
	if failed < rounds/8 || failed == rounds {
		t.Errorf("%d of %d ran out of space", failed, rounds)
	}
}

func blobsIn(t *testing.T, l *Library) int {
	t.Helper()
	all, err := os.ReadDir(l.dir.Path("blobs"))
	must(t, err)
	return len(all)
}

// TestRoomIsLookedForFirst: nobody stands still for a freeze that the disk has no room for.
func TestRoomIsLookedForFirst(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Loop)
	f := newFixture(t, nastyBase)
	disk := smallDisk(t, 16)
	l := openLibrary(t, Config{Dir: filepath.Join(disk, "library")})
	must(t, l.Prepare(t.Context(), f.source(), nil))
	must(t, os.WriteFile(filepath.Join(f.upper, "noise"), make([]byte, 24<<20), 0o644))
	brim(t, disk, 4<<20)
	var s session
	req := Request{Owner: "alice", Key: "s1", Source: f.source()}
	s.attach(&req.Source)
	_, err := l.Freeze(t.Context(), req)
	if !errs.Is(err, errs.NoSpace) || !strings.Contains(err.Error(), "MB are free on the file system of "+string(l.dir)) || !strings.Contains(err.Error(), "at least 7 MB") {
		t.Errorf("%v", err)
	}
	s.check(t, 0)
	must(t, os.Truncate(filepath.Join(f.upper, "noise"), 4<<20))
	if freeze(t, l, f, func(r *Request) { s.attach(&r.Source) }); s.pauses != 1 {
		t.Errorf("paused %d times", s.pauses)
	}
}
