package images

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/graft"
	"slipway/images/tree/treetest"
	"slipway/internal/testenv"
)

// litter leaves and removes what does not travel, as sessions do all the time.
func litter(r *rand.Rand, root string) error {
	var all []error
	for _, dir := range []string{"tmp", "var/tmp", "run", "home", "var/lib/apt/lists"} {
		at := filepath.Join(root, dir)
		if st, err := os.Lstat(at); err != nil || !st.IsDir() {
			continue
		}
		for i := range 1 + r.IntN(3) {
			all = append(all, write(filepath.Join(at, fmt.Sprintf("litter%d-%d", i, r.Uint32())), "litter"))
		}
		gone := filepath.Join(at, "gone")
		all = append(all, os.MkdirAll(filepath.Join(gone, "deep"), 0o700), os.RemoveAll(gone))
	}
	return errors.Join(all...)
}

// madeAgain returns f's changes in another upper directory: other inodes, other fractions of seconds, other litter.
func (f *fixture) madeAgain(r *rand.Rand) *fixture {
	f.t.Helper()
	g := *f
	g.dir = f.t.TempDir()
	g.upper = filepath.Join(g.dir, "upper")
	for _, d := range []string{"work", "merged"} {
		must(f.t, os.Mkdir(filepath.Join(g.dir, d), 0o755))
	}
	if out, err := exec.Command("cp", "-a", f.upper, g.upper).CombinedOutput(); err != nil {
		f.t.Fatalf("cp: %v: %s", err, out)
	}
	must(f.t, litter(r, g.upper))
	must(f.t, filepath.WalkDir(g.upper, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		at := unix.Timespec{Sec: st.Mtim.Sec, Nsec: int64(r.IntN(2) * r.IntN(1e9))}
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	}))
	return &g
}

// TestSameTreeMadeInTwoWaysHasOneDigest: nothing that does not travel is in a digest, whatever the tree.
func TestSameTreeMadeInTwoWaysHasOneDigest(t *testing.T) {
	seed := treetest.Seed(t)
	for round := range testenv.Rounds(2, 6) {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		f := newFixture(t, nastyBase)
		f.change(nastyChanges)
		f.change(func(root string) error { gardener{r, root}.tend(r.IntN(100)); return nil })
		f.change(func(root string) error { return litter(r, root) })
		one := freeze(t, newLibrary(t), f, nil)
		var s session // with a pause, contents are stored before it is known what travels
		other := freeze(t, newLibrary(t), f.madeAgain(r), func(r *Request) { s.attach(&r.Source) })
		if one.Digest != other.Digest {
			t.Fatalf("round %d: %s and %s:\n%+v\n%+v", round, one.Digest, other.Digest, one.Manifest, other.Manifest)
		}
	}
}

// TestLitterDoesNotMakeAFreeze: what is made and removed in a directory that travels empty leaves the source unchanged,
// and all else of the directory does not.
func TestLitterDoesNotMakeAFreeze(t *testing.T) {
	f := newFixture(t, nastyBase)
	r := rand.New(rand.NewPCG(1, 2))
	in := func(path string) string { return filepath.Join(f.upper, path) }
	f.change(nastyChanges)
	f.change(func(root string) error { return litter(r, root) })
	must(t, os.MkdirAll(in("srv/new/tmp"), 0o755), os.MkdirAll(in("var/tmp"), 0o777))
	l := newLibrary(t, "/srv/new/tmp/*")
	state := func() string {
		t.Helper()
		state, _, _, err := graft.Scan(t.Context(), f.upper, l.strip)
		must(t, err)
		return state
	}
	freeze(t, l, f, nil)
	before := state()
	for name, change := range map[string]func() error{
		"made":           func() error { return write(in("tmp/x"), "x") },
		"removed":        func() error { return os.Remove(in("tmp/x")) },
		"a directory":    func() error { return os.Mkdir(in("var/tmp/dir"), 0o700) },
		"by the session": func() error { f.change(func(root string) error { return litter(r, root) }); return nil },
		"not the base's": func() error { return write(in("srv/new/tmp/x"), "x") },
		"a time":         func() error { return os.Chtimes(in("tmp"), time.Unix(1, 0), time.Unix(1, 0)) },
	} {
		_ = os.WriteFile(in("tmp/x"), nil, 0o600)
		must(t, change())
		if now := state(); now != before {
			t.Errorf("%s: the fingerprint changes", name)
		}
		if e := freeze(t, l, f, nil); !e.Unchanged {
			t.Errorf("%s: frozen anew", name)
		}
	}
	last := freeze(t, l, f, nil).Digest
	for name, change := range map[string]func() error{
		"mode":  func() error { return os.Chmod(in("tmp"), 0o700) },
		"owner": func() error { return os.Chown(in("tmp"), 5, 6) },
		"xattr": func() error { return unix.Setxattr(in("tmp"), "user.a", []byte("b"), 0) },
		"gone":  func() error { return os.RemoveAll(in("var/tmp")) },
	} {
		must(t, change())
		e := freeze(t, l, f, nil)
		if e.Unchanged || e.Digest == last {
			t.Errorf("%s: unchanged", name)
		}
		last = e.Digest
	}
}
