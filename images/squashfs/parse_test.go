package squashfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/images/tree/treetest"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func TestParseWhatMksquashfsMakes(t *testing.T) {
	source := nasty(t)
	want := treetest.List(t, source)
	for _, args := range []string{
		"-comp gzip", "-comp zstd -Xcompression-level 1", "-comp gzip -b 4096", "-comp zstd -b 1M", "-comp zstd -no-fragments",
		"-comp zstd -no-exports", "-comp gzip -noI -noD -noF -noX", "-comp gzip -noId", "-comp zstd -always-use-fragments -b 64K",
		"-comp gzip -Xcompression-level 1 -Xwindow-size 10", "-comp zstd -no-duplicates -no-sparse",
	} {
		t.Run(args, func(t *testing.T) {
			img := open(t, mksquashfs(t, source, strings.Fields(args)...))
			if diff := treetest.Diff(want, lines(t, img, img.Root)); len(diff) > 0 {
				t.Errorf("%d lines differ:\n%s", len(diff), strings.Join(diff, "\n"))
			}
			if img.Memory() < 3000*100 || img.Memory() > 3000*1000 {
				t.Errorf("%d bytes of memory for 3,000 files", img.Memory())
			}
		})
	}
}

// TestParseWhatGensquashfsMakes compares with the kernel, as that tool leaves out hard links and the root's time.
func TestParseWhatGensquashfsMakes(t *testing.T) {
	testenv.Need(t, testenv.Gensquash)
	source := nasty(t)
	for _, args := range []string{"-c gzip", "-c zstd", "-c gzip -e", "-c zstd -b 4096"} {
		path := filepath.Join(t.TempDir(), "made.sqfs")
		run(t, "gensquashfs", append(strings.Fields(args), "-D", source, "-k", "-x", "-q", path)...)
		img := open(t, path)
		same(t, args, treetest.List(t, mount(t, path)), lines(t, img, img.Root))
		base, err := os.ReadFile(path)
		must(t, err)
		var given *Node
		image := build(t, base, WriterConfig{}, func(w *Writer, root *Node) *Node {
			given = wide(t, w, root)
			return given
		})
		same(t, args+", grafted on", lines(t, parse(t, image), given), treetest.List(t, mount(t, save(t, image))))
	}
}

func TestParseWithoutXattrs(t *testing.T) {
	img := open(t, mksquashfs(t, nasty(t), "-no-xattrs", "-no-fragments", "-no-exports"))
	must(t, img.Walk(func(path string, n *Node) error {
		if n.Xattrs != nil {
			t.Errorf("%s has xattrs", path)
		}
		return nil
	}))
}

func TestOtherCompressorsAreNamed(t *testing.T) {
	source := t.TempDir()
	for _, name := range []string{"xz", "lzo", "lz4"} {
		path := mksquashfs(t, source, "-comp", name)
		f, err := os.Open(path)
		must(t, err)
		defer f.Close()
		if _, err = Parse(f, 4096); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnEmptyImage(t *testing.T) {
	img := open(t, mksquashfs(t, t.TempDir()))
	if img.Root.Kind != Dir || len(img.Root.Children) != 0 {
		t.Errorf("root is %+v", img.Root)
	}
	if again := parse(t, build(t, nil, WriterConfig{}, func(_ *Writer, root *Node) *Node { return root })); len(again.Root.Children) != 0 {
		t.Errorf("root is %+v", again.Root)
	}
}

func TestLookup(t *testing.T) {
	leaf := file(nil)
	root := dir(Entry{"a", dir(Entry{"b", leaf}, Entry{"b-", file(nil)})}, Entry{"a-", &Node{Kind: Symlink, Target: "a"}})
	img := &Image{Root: root}
	for path, want := range map[string]*Node{"/": root, "": root, "/a/b": leaf, "a/b/": leaf, "/a/c": nil, "/a-/b": nil, "/a/b/c": nil} {
		if got := img.Lookup(path); got != want {
			t.Errorf("%q is %+v", path, got)
		}
	}
	if c := root.With(nil); len(c.Children) != 0 || c.MTime != root.MTime || len(root.Children) != 2 {
		t.Error("With must change a copy")
	}
}

func TestWalk(t *testing.T) {
	root := dir(Entry{"a", dir(Entry{"x", file(nil)}, Entry{"y", file(nil)})}, Entry{"b", dir(Entry{"x", file(nil)})}, Entry{"c", file(nil)})
	stop := errors.New("stop")
	tests := []struct {
		at   string
		give error
		want string
		err  error
	}{
		{"", nil, "/ /a /a/x /a/y /b /b/x /c", nil},
		{"/a", fs.SkipDir, "/ /a /b /b/x /c", nil},
		{"/a/x", fs.SkipDir, "/ /a /a/x /b /b/x /c", nil},
		{"/a/x", fs.SkipAll, "/ /a /a/x", nil},
		{"/", fs.SkipDir, "/", nil},
		{"/b", stop, "/ /a /a/x /a/y /b", stop},
	}
	for _, tt := range tests {
		var paths []string
		err := (&Image{Root: root}).Walk(func(path string, _ *Node) error {
			paths = append(paths, path)
			if path == tt.at {
				return tt.give
			}
			return nil
		})
		if got := strings.Join(paths, " "); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%v at %q: %q, %v", tt.give, tt.at, got, err)
		}
	}
}

func TestSuperblockRoundTrip(t *testing.T) {
	s := Superblock{
		Inodes: 1, ModTime: 2, BlockSize: 1 << 20, Fragments: 3, Compressor: 6, Flags: 0x4c0, IDs: 4, RootInode: 5, BytesUsed: 6,
		IDTable: 7, XattrTable: 8, InodeTable: 9, DirectoryTable: 10, FragmentTable: 11, ExportTable: none,
	}
	b := s.Bytes()
	if got, err := ParseSuperblock(b[:]); err != nil || got != s {
		t.Errorf("%+v, %v", got, err)
	}
	for at, v := range map[int]byte{0: 1, 12: 1, 22: 1, 28: 5} {
		c := slices.Clone(b[:])
		c[at] = v
		if _, err := ParseSuperblock(c); err == nil {
			t.Errorf("byte %d may be %d", at, v)
		}
	}
	testenv.Need(t, testenv.Mksquashfs)
	raw, err := os.ReadFile(mksquashfs(t, t.TempDir()))
	must(t, err)
	real, err := ParseSuperblock(raw)
	must(t, err)
	if again := real.Bytes(); string(again[:]) != string(raw[:SuperblockSize]) {
		t.Errorf("%x became %x", raw[:SuperblockSize], again)
	}
}
