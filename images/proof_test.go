package images

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/records"
	"slipway/images/sif"
	"slipway/images/tree/treetest"
	"slipway/internal/testenv"
)

// equalTrees compares an environment with its source in three ways: what the kernel mounts, by a lister of its own;
// what Compare says; and what squashfuse mounts.
func equalTrees(t *testing.T, l *Library, f *fixture, e records.Environment) {
	t.Helper()
	skip := f.leftOutOf(l, e)
	want := untimed(l, f.lines(skip...))
	point := mountSIF(t, l.dir.Image(e.Digest))
	tell(t, "kernel", treetest.Diff(want, untimed(l, treetest.List(t, point, skip...))))
	r, err := l.Compare(t.Context(), e, f.source(), nil)
	must(t, err)
	if r.Differences != 0 || r.Changed || r.Paths+int64(len(skip)) < int64(len(want)) {
		t.Errorf("compare: %+v, of %d", r, len(want))
	}
	t.Run("squashfuse", func(t *testing.T) {
		testenv.Need(t, testenv.Squashfuse)
		point := squashfuse(t, l.dir.Image(e.Digest))
		tell(t, "squashfuse", treetest.Diff(plainLines(want), plainLines(untimed(l, treetest.List(t, point, skip...)))))
	})
}

// leftOutOf lists what of the merged tree is not in an image, or not as it is there.
func (f *fixture) leftOutOf(l *Library, e records.Environment) []string {
	f.t.Helper()
	skip := append(f.declared(l), ".singularity.d")
	for _, path := range e.Manifest.Added {
		skip = append(skip, strings.TrimPrefix(path, "/"))
	}
	return skip
}

// untimed leaves out the times of directories that are stripped empty.
func untimed(l *Library, lines []string) []string {
	var paths []string
	for _, rule := range l.strip.Rules() {
		if dir, ok := strings.CutSuffix(rule, "/*"); ok {
			paths = append(paths, dir)
		}
	}
	return treetest.Timeless(lines, paths...)
}

func tell(t *testing.T, how string, differences []string) {
	t.Helper()
	for _, d := range differences[:min(20, len(differences))] {
		t.Errorf("%s: %s", how, d)
	}
}

func squashfuse(t *testing.T, image string) string {
	t.Helper()
	point := t.TempDir()
	if out, err := exec.Command("squashfuse", "-o", fmt.Sprintf("offset=%d", sif.PartitionOffset), image, point).CombinedOutput(); err != nil {
		t.Fatalf("squashfuse: %v: %s", err, out)
	}
	t.Cleanup(func() { must(t, unix.Unmount(point, unix.MNT_DETACH)) })
	return point
}

// plainLines leaves out which names are of one inode, and xattrs that are not the user's: squashfuse shows neither.
func plainLines(lines []string) []string {
	hidden := regexp.MustCompile(` one of \d+ names of ".*"$| "(trusted|security)\.[^"]*"=[0-9a-f]*`)
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = hidden.ReplaceAllString(line, "")
	}
	return out
}

// TestAnyTreeFreezesAndThaws makes random images of several layers and random changes over them, freezes, compares what
// the kernel, squashfuse, and Apptainer show as root and as nobody, and thaws; the changes go on after each freeze.
func TestAnyTreeFreezesAndThaws(t *testing.T) {
	testenv.Need(t, testenv.Loop)
	seed, program := treetest.Seed(t), listerProgram(t)
	for round := range testenv.Rounds(1, 4) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(round)))
			f := newFixture(t, nastyBase)
			for range 1 + r.IntN(3) {
				f.change(func(root string) error { gardener{r, root}.tend(r.IntN(150)); return plain(root) })
				f.push()
			}
			l := openLibrary(t, Config{Dir: filepath.Join(openDir(t), "library")})
			for range 2 {
				f.change(func(root string) error { gardener{r, root}.tend(r.IntN(150)); return nil })
				e := freeze(t, l, f, nil)
				equalTrees(t, l, f, e)
				equalInApptainer(t, l, f, e, program)
				thawsAlike(t, l, f, e)
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
}

// thawsAlike starts another session from e: it shows the same tree, and a freeze of it gives the same one again.
func thawsAlike(t *testing.T, l *Library, f *fixture, e records.Environment) {
	t.Helper()
	thawed, err := l.Thaw(t.Context(), e.Digest)
	must(t, err)
	g := *f
	g.dir = t.TempDir()
	g.upper = filepath.Join(g.dir, "upper")
	must(t, os.Mkdir(g.upper, 0o755), os.Mkdir(filepath.Join(g.dir, "merged"), 0o755), thawed.Fill(t.Context(), g.upper))
	skip := append(f.leftOutOf(l, e), g.declared(l)...)
	tell(t, "thawed", treetest.Diff(untimed(l, f.lines(skip...)), untimed(l, g.lines(skip...))))
	again := freeze(t, l, &g, func(r *Request) { r.Key = "thawed" })
	equalTrees(t, l, &g, again)
}

func TestCompareTellsChanges(t *testing.T) {
	f := newFixture(t, nastyBase, nastyTop)
	f.change(nastyChanges)
	l := newLibrary(t)
	e := freeze(t, l, f, nil)
	look := func() Compared {
		t.Helper()
		r, err := l.Compare(t.Context(), e, f.source(), nil)
		must(t, err)
		noLeftovers(t, l)
		return r
	}
	if r := look(); r.Differences != 0 || r.Changed || r.ACLs != 1 || r.Sockets != 1 || r.Devices != 2 || r.Stripped < 5 || r.Paths < 40 {
		t.Errorf("unchanged: %+v", r)
	}
	must(t, write(filepath.Join(f.upper, "root/.ssh/new"), "stripped"))
	if r := look(); r.Differences != 0 || r.Changed {
		t.Errorf("after a stripped file: %+v", r)
	}
	f.change(func(root string) error { return os.WriteFile(filepath.Join(root, "opt/empty"), []byte("x"), 0o644) })
	if r := look(); r.Differences != 1 || !r.Changed || !strings.HasPrefix(r.First[0], "/opt/empty: size 1 ") && !strings.HasPrefix(r.First[0], "/opt/empty: time ") {
		if len(r.First) > 2 || !r.Changed {
			t.Errorf("after a change: %+v", r)
		}
	}
	freeze(t, l, f, nil)
	if r := look(); !r.Changed {
		t.Errorf("after another freeze: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Compare(ctx, e, f.source(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	src := f.source()
	src.Upper = filepath.Join(f.dir, "nowhere")
	if _, err := l.Compare(t.Context(), e, src, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its tree: %v", err)
	}
	noLeftovers(t, l)
}

// TestAWrongImageIsTold changes one byte of a file's content in the image: the tree differs, whatever the digests say.
func TestAWrongImageIsTold(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(func(root string) error {
		return write(filepath.Join(root, "opt/data"), strings.Repeat("\x00\xff\x17", 70000))
	})
	l := newLibrary(t)
	e := freeze(t, l, f, nil)
	must(t, os.WriteFile(filepath.Join(f.upper, "opt/data"), []byte(strings.Repeat("\x00\xff\x18", 70000)), 0o644))
	r, err := l.Compare(t.Context(), e, f.source(), nil)
	must(t, err)
	if !slices.ContainsFunc(r.First, func(s string) bool { return s == "/opt/data: its content differs from byte 2 on" }) {
		t.Errorf("%+v", r)
	}
}
