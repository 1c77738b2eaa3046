package squashfs

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/images/tree/treetest"
	"slipway/internal/errs"
)

// finish writes the tables of a tree to nowhere.
func finish(t testing.TB, root *Node) error {
	t.Helper()
	w, err := NewWriter(WriterConfig{Out: io.Discard})
	must(t, err)
	defer w.Close()
	_, err = w.Finish(t.Context(), root)
	return err
}

func TestWhatTheFormatCannotHoldIsNamed(t *testing.T) {
	deep := dir()
	for range maxDepth + 1 {
		deep = dir(Entry{"d", deep})
	}
	loop := dir()
	loop.Children = []Entry{{"again", loop}}
	shared := dir()
	with := func(x ...Xattr) *Node { n := file(nil); n.Xattrs = &Xattrs{List: x}; return n }
	at := func(name string, n *Node) *Node { return dir(Entry{"a", dir(Entry{name, n})}) }
	tests := []struct {
		name string
		root *Node
		want []string
	}{
		{"a file for a root", file(nil), []string{"root"}},
		{"no root", nil, []string{"root"}},
		{"too deep", deep, []string{"/d/d/d", "4096"}},
		{"a loop", loop, []string{`"/again"`, "two names"}},
		{"a shared directory", dir(Entry{"x", shared}, Entry{"y", shared}), []string{`"/y"`, "two names"}},
		{"a long name", at(strings.Repeat("n", 257), file(nil)), []string{`"/a/nnn`, "256"}},
		{"a slash", at("b/c", file(nil)), []string{`"/a/b/c"`, "slash"}},
		{"a zero byte", at("b\x00", file(nil)), []string{"zero byte"}},
		{"no name", at("", file(nil)), []string{`"/a/"`, "name"}},
		{"two dots", at("..", file(nil)), []string{`"/a/.."`}},
		{"a name twice", dir(Entry{"x", file(nil)}, Entry{"x", file(nil)}), []string{`"/x"`, "twice"}},
		{"no kind", at("b", &Node{}), []string{`"/a/b"`, "kind"}},
		{"a long target", at("b", &Node{Kind: Symlink, Target: strings.Repeat("t", 70000)}), []string{`"/a/b"`, "70000"}},
		{"an ACL", at("b", with(Xattr{"system.posix_acl_access", nil})), []string{`"/a/b"`, "system.posix_acl_access"}},
		{"a long value", at("b", with(Xattr{"user.x", make([]byte, 70000)})), []string{`"/a/b"`, "70000"}},
		{"foreign data", at("b", file(&Data{Size: 10, Fragment: 7})), []string{`"/a/b"`, "not of this image"}},
		{"too few blocks", at("b", file(&Data{Size: 1 << 40, Fragment: NoFragment})), []string{`"/a/b"`, "not of this image"}},
	}
	for _, tt := range tests {
		err := finish(t, tt.root)
		if !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %.300v, without %q", tt.name, err, want)
			}
		}
	}
}

// owned makes a directory with a file for each of n owners.
func owned(n int) *Node {
	var entries []Entry
	for i := range n {
		f := file(nil)
		f.UID, f.GID = uint32(i), 0
		entries = append(entries, Entry{fmt.Sprintf("%06d", i), f})
	}
	return dir(entries...)
}

func TestOwnersAreLimited(t *testing.T) {
	if err := finish(t, dir(Entry{"all", owned(math.MaxUint16)})); err != nil {
		t.Error(err)
	}
	err := finish(t, dir(Entry{"all", owned(70000)}))
	if err == nil || !strings.Contains(err.Error(), `"/all/065535"`) || !strings.Contains(err.Error(), "65535") {
		t.Errorf("70,000 owners: %v", err)
	}
}

// TestALargeDirectory has a listing over many blocks, with the index by which the kernel finds a name in it.
func TestALargeDirectory(t *testing.T) {
	var entries []Entry
	for i := range 100000 {
		entries = append(entries, Entry{fmt.Sprintf("a name of some length %06d", i), file(nil)})
	}
	entries = append(entries, Entry{strings.Repeat("n", 256), file(nil)}, Entry{"zz", dir(Entry{"x", file(nil)})})
	image := build(t, nil, WriterConfig{}, func(w *Writer, _ *Node) *Node {
		entries[99999].Node = file(put(t, w, []byte("found")))
		return dir(Entry{"large", dir(entries...)}, Entry{"small", dir()})
	})
	img := parse(t, image)
	if got := len(img.Lookup("/large").Children); got != len(entries) {
		t.Fatalf("%d entries of %d", got, len(entries))
	}
	if string(read(t, img, "/large/"+entries[99999].Name)) != "found" {
		t.Error("the last file is another")
	}
	point := mount(t, save(t, image))
	for _, i := range []int{0, 1, 255, 256, 50000, 99998} {
		if _, err := os.Stat(filepath.Join(point, "large", entries[i].Name)); err != nil {
			t.Error(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(point, "large", entries[99999].Name)); string(got) != "found" {
		t.Errorf("the kernel finds %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(point, "large", "a name of some length 05")); !os.IsNotExist(err) {
		t.Errorf("a name that is not there: %v", err)
	}
}

// shifted is an image whose data but for the superblock lies beyond 4 GiB: a hole without bytes is put in before it.
type shifted struct {
	head [SuperblockSize]byte
	rest []byte
	from int64
}

func (s *shifted) ReadAt(p []byte, off int64) (int, error) {
	switch {
	case off >= s.from:
		return bytes.NewReader(s.rest).ReadAt(p, off-s.from)
	case off == 0 && len(p) <= SuperblockSize:
		return copy(p, s.head[:]), nil
	}
	return 0, fmt.Errorf("%d bytes read at %d", len(p), off)
}

// TestDataBeyond4GiB writes behind a base whose data is said to end at 5 GiB, in a sparse file that the kernel reads.
func TestDataBeyond4GiB(t *testing.T) {
	const cut = 5<<30 + 1234
	big := noise(rand.New(rand.NewPCG(1, 2)), 300000)
	base := &Image{Super: Superblock{BlockSize: 128 << 10, Compressor: compressorGzip, InodeTable: cut}}
	var tail bytes.Buffer
	w, err := NewWriter(WriterConfig{Base: base, Out: &tail})
	must(t, err)
	defer w.Close()
	root := dir(Entry{"big", file(put(t, w, big))}, Entry{"small", file(put(t, w, []byte("small")))})
	super, err := w.Finish(t.Context(), root)
	must(t, err)
	img, err := Parse(&shifted{head: super.Bytes(), rest: tail.Bytes(), from: cut}, cut+int64(tail.Len()))
	must(t, err)
	if d := img.Lookup("/big").Data; d.Start < cut {
		t.Errorf("the file is at %d", d.Start)
	}
	same(t, "our parser", lines(t, img, root), lines(t, img, img.Root))

	path := filepath.Join(t.TempDir(), "huge.sqfs")
	f, err := os.Create(path)
	must(t, err)
	head := super.Bytes()
	_, err1 := f.WriteAt(head[:], 0)
	_, err2 := f.WriteAt(tail.Bytes(), cut)
	must(t, err1, err2, f.Close())
	same(t, "the kernel", lines(t, img, root), treetest.List(t, mount(t, path)))
}

func TestManyXattrSets(t *testing.T) {
	var entries []Entry
	for i := range 3000 {
		f := file(nil)
		f.Xattrs = &Xattrs{List: []Xattr{{"trusted.empty", nil}, {"user.n", fmt.Appendf(nil, "%d", i%1500)}, {"user.v", bytes.Repeat([]byte{byte(i % 3)}, 200)}}}
		entries = append(entries, Entry{fmt.Sprintf("%04d", i), f})
	}
	root := dir(entries...)
	image := build(t, nil, WriterConfig{}, func(*Writer, *Node) *Node { return root })
	img := parse(t, image)
	want := lines(t, img, root)
	same(t, "our parser", want, lines(t, img, img.Root))
	if img.Lookup("/0001").Xattrs != img.Lookup("/1501").Xattrs {
		t.Error("equal sets are stored twice")
	}
	same(t, "the kernel", want, treetest.List(t, mount(t, save(t, image))))
}

// TestPositionsBeyond32BitsAreRefused lowers the limit: real tables of 4 GiB take too long to make.
func TestPositionsBeyond32BitsAreRefused(t *testing.T) {
	x := &Xattrs{List: []Xattr{{"user.x", noise(rand.New(rand.NewPCG(1, 1)), 20000)}}}
	with := file(nil)
	with.Xattrs = x
	var long []Entry
	for i := range 200 {
		long = append(long, Entry{fmt.Sprintf("%0200d", i), file(nil)})
	}
	for name, tt := range map[string]struct {
		root *Node
		want string
	}{
		"xattrs":   {dir(Entry{"some", dir(Entry{"file", with}, Entry{"other", file(nil)})}), `"/some/file": the xattrs`},
		"inodes":   {dir(Entry{"some", owned(5000)}), `"/some/001025": the inode table`},
		"listings": {dir(Entry{"some", dir(long...)}), `"/some": the directory table`},
	} {
		super := Superblock{BlockSize: freshBlockSize, Compressor: compressorZstd, InodeTable: SuperblockSize}
		made, err := newTables(WriterConfig{Workers: 1}, super, nil)
		must(t, err)
		made.maxPosition = map[string]uint64{"xattrs": 10000, "inodes": 32 << 10, "listings": 10000}[name]
		_, err = made.write(t.Context(), tt.root, &countingWriter{w: io.Discard, count: new(atomic.Int64)})
		if !errs.Is(err, errs.Invalid) || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatIsMadeOfTablesIsBounded: a hostile image of zeros unpacks to more names and attributes than there is memory
// for.
func TestWhatIsMadeOfTablesIsBounded(t *testing.T) {
	image := build(t, nil, WriterConfig{}, func(*Writer, *Node) *Node {
		marked := &Node{Kind: Fifo, Xattrs: &Xattrs{List: []Xattr{{"user.a", nil}, {"user.b", nil}}}}
		return dir(Entry{"a", marked}, Entry{"b", marked}, Entry{"c", &Node{Kind: Fifo}})
	})
	for _, tc := range []struct {
		entries, xattrs int
		fits            bool
	}{{3, 2, true}, {2, 2, false}, {3, 1, false}} {
		_, err := parseUpTo(bytes.NewReader(image), int64(len(image)), tc.entries, tc.xattrs)
		if (err == nil) != tc.fits || err != nil && !errs.Is(err, errs.Invalid) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
