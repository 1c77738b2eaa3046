package inventory

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/images/squashfs"
)

func pip(name, version string) Package {
	return Package{Manager: Pip, Name: name, Version: version, Path: "/v/lib/python3.13/site-packages", Source: "/" + name + version}
}

func TestCompare(t *testing.T) {
	old := Inventory{
		Base:    "a@sha256:1",
		Python:  []Interpreter{{Path: "/usr/bin/python3.13", Version: "3.13.5", Default: true}},
		CUDA:    &CUDA{Version: "12.8", LeastDriver: "525.60.13"},
		Git:     []Checkout{{Path: "/opt/ana", Commit: "0123456789abcdef", Branch: "main", State: Clean}},
		Kernels: []Kernel{{Name: "python3", Display: "Python 3", Path: "/k/python3/kernel.json"}},
		Packages: []Package{
			pip("numpy", "2.3.1"), pip("scipy", "1.14.0"), pip("same", "1"), pip("twice", "1"), pip("twice", "2"),
			{Manager: Pip, Name: "moved", Version: "1", Path: "/usr/local/lib/python3.11/dist-packages"},
			{Manager: Pip, Name: "mine", Version: "1", Commit: "aaaaaaaaaaaaaaaa"},
			{Manager: Pip, Name: "numba", Version: "0.60", Installer: "conda"},
			{Manager: Conda, Name: "numba", Version: "0.60", Build: "h1", Path: "/opt/conda"},
			{Manager: Apt, Name: "libc6", Version: "2.41-12", Architecture: "amd64"},
			{Manager: Apt, Name: "libc6", Version: "2.41-12", Architecture: "i386"},
			{Manager: Spack, Name: "root", Version: "6.34", Build: "abc", Path: "/s/root-abc"},
		},
	}
	now := Inventory{
		Base:   "a@sha256:2",
		Python: []Interpreter{{Path: "/usr/bin/python3.14", Version: "3.14.0", Default: true}},
		CUDA:   &CUDA{Version: "13.0", LeastDriver: "580"},
		Git:    []Checkout{{Path: "/opt/ana", Commit: "0123456789abcdef", Branch: "main", State: Modified}},
		Packages: []Package{
			pip("numpy", "2.3.4"), pip("torch", "2.9.0"), pip("Same", "1"), pip("twice", "2"), pip("odd\nname", "1"),
			{Manager: Pip, Name: "moved", Version: "1", Path: "/usr/local/lib/python3.13/dist-packages"},
			{Manager: Pip, Name: "mine", Version: "1", Commit: "bbbbbbbbbbbbbbbb"},
			{Manager: Pip, Name: "numba", Version: "0.61", Installer: "conda"},
			{Manager: Conda, Name: "numba", Version: "0.60", Build: "h2", Path: "/opt/conda"},
			{Manager: Apt, Name: "libc6", Version: "2.41-13", Architecture: "amd64"},
			{Manager: Apt, Name: "libc6", Version: "2.41-12", Architecture: "i386"},
			{Manager: Spack, Name: "root", Version: "6.36", Build: "def", Path: "/s/root-def"},
		},
	}
	want := []string{
		"~ base a@sha256:1 -> a@sha256:2", "~ python 3.13.5 -> 3.14.0", "~ cuda 12.8 -> 13.0", "~ least driver 525.60.13 -> 580",
		"~ git /opt/ana 0123456789ab main clean -> 0123456789ab main modified", "- kernel /k/python3/kernel.json Python 3",
		`+ "odd\nname" 1`, "+ torch 2.9.0", "- scipy 1.14.0", "- twice 1",
		"~ libc6 2.41-12 -> 2.41-13 (apt)", "~ numba 0.60 h1 -> 0.60 h2 (conda)",
		"~ mine 1 at aaaaaaaaaaaa -> 1 at bbbbbbbbbbbb", "~ numpy 2.3.1 -> 2.3.4", "~ root 6.34 -> 6.36 (spack)",
	}
	d := Compare(old, now)
	if diff := cmp.Diff(want, d.Lines()); diff != "" {
		t.Error(diff)
	}
	for range 20 { // maps have no order
		if diff := cmp.Diff(d, Compare(old, now)); diff != "" {
			t.Fatal(diff)
		}
	}
	if back := Compare(now, old); len(back.Added) != len(d.Removed) || len(back.Removed) != len(d.Added) || len(back.Changed) != len(d.Changed) {
		t.Errorf("backwards: %v", back.Lines())
	}
	if d := Compare(old, old); !d.Equal() || len(d.Lines()) != 0 {
		t.Error(d.Lines())
	}
}

func TestFileLines(t *testing.T) {
	for want, f := range map[string]FileChanges{
		"no files changed": {Touched: 4}, "1 file added": {Added: 1}, "214 files changed": {Changed: 214},
		"12 files added, 1 changed, 3 removed": {Added: 12, Changed: 1, Removed: 3},
	} {
		if got := f.Line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	d := Difference{Files: &FileChanges{Touched: 1}}
	if d.Equal() || (Difference{Files: &FileChanges{}}).Equal() == false {
		t.Error("a new time is a difference, and no file is none")
	}
}

// trees returns two trees whose contents lie in stores of their own, as two tails do.
func trees(old, now fstest.MapFS) (Tree, Tree) { return newStore().tree(old), newStore().tree(now) }

func at(content string, seconds int64) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(content), Mode: 0o644, ModTime: time.Unix(seconds, 0)}
}

func TestFiles(t *testing.T) {
	old, now := trees(fstest.MapFS{
		"same": at("x", 1), "touched": at("x", 1), "read": at("xy", 1), "longer": at("x", 1), "gone/a": at("abc", 1), "gone/b": at("", 1),
		"link": link("a"), "kept": link("a"), "dir/x": at("1", 1), "mode": at("m", 1), "believed": at("ab", 1), "file": at("f", 1),
	}, fstest.MapFS{
		"same": at("x", 1), "touched": at("x", 2), "read": at("xz", 2), "longer": at("xxxx", 1), "new\xff": at("12345", 1),
		"link": link("b"), "kept": link("a"), "dir": at("now a file", 1), "mode": {Data: []byte("m"), Mode: 0o755, ModTime: time.Unix(1, 0)},
		"believed": at("cd", 1), "file/x": at("f", 1),
	})
	got, err := Files(context.Background(), old, now, nil)
	must(t, err)
	want := FileChanges{
		Added: 2, Removed: 3, Changed: 6, Touched: 1, Bytes: 5 + 3 - 3 + 9,
		First: []FileDiff{
			{"/dir", Content}, {"/dir/x", Removed}, {"/file", Content}, {"/file/x", Added}, {"/gone/a", Removed}, {"/gone/b", Removed},
			{"/link", Content}, {"/longer", Content}, {"/mode", Attributes}, {`"/new\xff"`, Added}, {"/read", Content},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Two tails may have other contents at one place, and one content at two; a shared base may not.
func TestFilesKnowsWhatABaseShares(t *testing.T) {
	old, now := trees(fstest.MapFS{"a": at("old", 1)}, fstest.MapFS{"a": at("new", 2)})
	never := func(*squashfs.Node) (io.ReaderAt, error) { t.Error("a file was read"); return nil, fs.ErrInvalid }
	for name, c := range map[string]struct {
		shared  Shared
		changed int
		open    func(*squashfs.Node) (io.ReaderAt, error)
	}{
		"nothing":             {nil, 1, nil},
		"a base before it":    {&squashfs.Superblock{InodeTable: squashfs.SuperblockSize}, 1, nil},
		"a base that has it":  {&squashfs.Superblock{InodeTable: 1 << 20}, 0, never},
		"bytes, no fragments": {&squashfs.Superblock{InodeTable: 1 << 20, Fragments: 3}, 0, never},
	} {
		x, y := old, now
		if c.open != nil {
			x.Open, y.Open = c.open, c.open
		}
		got, err := Files(context.Background(), x, y, c.shared)
		must(t, err)
		if got.Changed != c.changed || got.Touched != 1-c.changed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// A file of the base that the tail has again, as long and as old: only its bytes tell.
	tail := newStore()
	tail.next = 1 << 20
	got, err := Files(context.Background(), newStore().tree(fstest.MapFS{"a": at("old", 1)}), tail.tree(fstest.MapFS{"a": at("new", 1)}),
		&squashfs.Superblock{InodeTable: 1 << 20})
	must(t, err)
	if got.Changed != 1 {
		t.Errorf("base and tail: %+v", got)
	}
	fragment := func(tree Tree) { *tree.lookup("/a").Data = squashfs.Data{Size: 3, Fragment: 3} }
	fragment(old)
	fragment(now)
	c := &fileComparer{shared: &squashfs.Superblock{InodeTable: 1 << 20, Fragments: 3}}
	if c.inShared(old.lookup("/a").Data) {
		t.Error("the fourth fragment is not one of three")
	}
}

func TestFilesSeesAttributes(t *testing.T) {
	set := func(value string) *squashfs.Xattrs {
		return &squashfs.Xattrs{List: []squashfs.Xattr{{Name: "security.capability", Value: []byte(value)}}}
	}
	for name, c := range map[string]struct {
		change func(*squashfs.Node)
		want   int
	}{
		"nothing":        {func(n *squashfs.Node) { n.Xattrs = set("a") }, 0},
		"another value":  {func(n *squashfs.Node) { n.Xattrs = set("b") }, 1},
		"no xattr":       {func(n *squashfs.Node) {}, 1},
		"another owner":  {func(n *squashfs.Node) { n.Xattrs, n.UID = set("a"), 1 }, 1},
		"another group":  {func(n *squashfs.Node) { n.Xattrs, n.GID = set("a"), 1 }, 1},
		"a setuid bit":   {func(n *squashfs.Node) { n.Xattrs, n.Mode = set("a"), 0o4755 }, 1},
		"another device": {func(n *squashfs.Node) { n.Kind, n.Data, n.Rdev, n.Xattrs = squashfs.CharDevice, nil, 1, set("a") }, 1},
	} {
		old, now := trees(fstest.MapFS{"d/f": at("x", 1)}, fstest.MapFS{"d/f": at("x", 1)})
		old.lookup("/d/f").Xattrs = set("a")
		now.lookup("/d").MTime = 9
		c.change(now.lookup("/d/f"))
		got, err := Files(context.Background(), old, now, nil)
		must(t, err)
		if got.Changed != c.want || got.Added+got.Removed+got.Touched != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestFilesIsBoundedAndEnds(t *testing.T) {
	files := fstest.MapFS{}
	for n := range maxDiffs + 5 {
		files[fmt.Sprint(n)] = at("x", 1)
	}
	old, now := trees(fstest.MapFS{}, files)
	got, err := Files(context.Background(), old, now, nil)
	must(t, err)
	if got.Added != maxDiffs+5 || len(got.First) != maxDiffs {
		t.Errorf("%d added, %d listed", got.Added, len(got.First))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Files(ctx, old, now, nil); err == nil {
		t.Error("it went on")
	}
	lost := now
	lost.Open = func(*squashfs.Node) (io.ReaderAt, error) { return nil, fs.ErrInvalid }
	other := newStore().tree(fstest.MapFS{"1": at("y", 2)})
	if _, err := Files(context.Background(), other, lost, nil); err == nil || !strings.Contains(err.Error(), "/1: ") {
		t.Errorf("a content that cannot be read: %v", err)
	}
}
