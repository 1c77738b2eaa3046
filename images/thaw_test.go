package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/blob"
	"slipway/images/tree/treetest"
	"slipway/internal/errs"
)

// TestThaw: what a session finds is what was frozen, and freezing that again gives the same tree.
func TestThaw(t *testing.T) {
	f := newFixture(t, nastyBase, nastyTop)
	f.change(nastyChanges)
	l := newLibrary(t)
	e := freeze(t, l, f, nil)
	from, err := l.Thaw(t.Context(), e.Digest)
	if must(t, err); from.Image != f.source().Base.Digest {
		t.Errorf("it stands on %s", from.Image)
	}
	upper := filepath.Join(f.dir, "thawed")
	must(t, os.Mkdir(upper, 0o700), from.Fill(t.Context(), upper))
	root := mountSIF(t, l.dir.Image(e.Digest))
	want := treetest.List(t, root, leftOut()...)
	merged := filepath.Join(f.dir, "merged")
	must(t, unix.Mount("test", merged, "overlay", unix.MS_RDONLY, "lowerdir="+strings.Join(append([]string{upper}, f.layers...), ":")))
	got := treetest.List(t, merged, leftOut()...)
	must(t, unix.Unmount(merged, 0))
	for _, d := range treetest.Diff(want, got) {
		t.Error(d)
	}
	again := freeze(t, l, f, func(r *Request) { r.Key, r.Source.Upper = "s2", upper })
	first, err := l.document(e.Digest)
	must(t, err)
	second, err := l.document(again.Digest)
	if must(t, err); first.Tail != second.Tail {
		t.Errorf("the tail was %v and is %v", first.Tail, second.Tail)
	}
}

func TestThawOfNothing(t *testing.T) {
	l := newLibrary(t)
	if _, err := l.Thaw(t.Context(), blob.Prefix+strings.Repeat("0", 64)); !errs.Is(err, errs.NotFound) {
		t.Errorf("err = %v", err)
	}
}
