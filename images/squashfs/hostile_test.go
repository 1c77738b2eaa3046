package squashfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/images/tree/treetest"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// small makes images with one of each thing in them, by every compressor. Their largest file has so many bytes of text.
func small(t testing.TB, size int) [][]byte {
	var images [][]byte
	fill := func(w *Writer, root *Node) *Node {
		r := rand.New(rand.NewPCG(1, 1))
		f := file(put(t, w, append(text(r, size), make([]byte, 9000)...)))
		f.Xattrs = &Xattrs{List: []Xattr{{"user.x", []byte("1")}}}
		return dir(Entry{"d", dir(Entry{"f", f}, Entry{"g", f})}, Entry{"l", &Node{Kind: Symlink, Target: "d/f"}},
			Entry{"p", &Node{Kind: Fifo}}, Entry{"c", &Node{Kind: CharDevice, Rdev: 5}}, Entry{"s", file(put(t, w, []byte("small")))})
	}
	for _, super := range []Superblock{{BlockSize: 4096, Compressor: compressorGzip}, {BlockSize: 4096, Compressor: compressorZstd}} {
		super.InodeTable = SuperblockSize
		var tail bytes.Buffer
		w, err := NewWriter(WriterConfig{Base: &Image{Super: super}, Out: &tail, Workers: 1})
		must(t, err)
		root := fill(w, nil)
		made, err := w.Finish(t.Context(), root)
		must(t, err)
		w.Close()
		head := made.Bytes()
		images = append(images, append(head[:], tail.Bytes()...))
	}
	if _, err := exec.LookPath("mksquashfs"); err == nil {
		source := t.TempDir()
		must(t, os.WriteFile(source+"/f", text(rand.New(rand.NewPCG(1, 1)), size), 0o644), os.Symlink("f", source+"/l"), os.Link(source+"/f", source+"/h"))
		for _, args := range []string{"-comp gzip -b 4096", "-comp zstd -b 4096 -noI -noD -noF", "-comp zstd -no-exports -no-fragments"} {
			raw, err := os.ReadFile(mksquashfs(t, source, strings.Fields(args)...))
			must(t, err)
			images = append(images, raw)
		}
	}
	return images
}

// survey parses any bytes and reads what there is, up to a bound.
func survey(image []byte) error {
	img, err := Parse(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		return err
	}
	left := int64(1 << 20)
	return img.Walk(func(path string, n *Node) error {
		if n.Kind != File || left <= 0 {
			return nil
		}
		r, err := img.Open(n)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		p := make([]byte, min(r.Size(), 10000))
		for _, off := range []int64{0, r.Size() / 2, max(r.Size()-5000, 0)} {
			n, err := r.ReadAt(p, off)
			left -= int64(n)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		}
		return nil
	})
}

// seeds makes images of some hundreds of bytes, without padding: what a fuzzer tries with them is quick, and quickly
// made smaller.
func seeds(f *testing.F) (images [][]byte) {
	for _, image := range small(f, 200) {
		super, err := ParseSuperblock(image)
		must(f, err)
		images = append(images, image[:super.BytesUsed])
	}
	return images
}

// maxFuzzed is what a fuzzer has use for: all of the format has room in it several times.
const maxFuzzed = 16 << 10

// FuzzParse looks for a panic, a loop and an error that is not the image's fault. It reads memory and writes nothing.
func FuzzParse(f *testing.F) {
	for _, image := range seeds(f) {
		f.Add(image)
	}
	f.Fuzz(func(t *testing.T, image []byte) {
		if len(image) > maxFuzzed {
			return
		}
		if _, err := Parse(bytes.NewReader(image), int64(len(image))); err != nil && !errs.Is(err, errs.Invalid) && !errs.Is(err, errs.Conflict) {
			t.Errorf("%v: %v", errs.KindOf(err), err)
		}
	})
}

// rewrite reads the tables of an image and writes those of its tree. What was read can be written.
func rewrite(t *testing.T, image []byte) error {
	img, err := Parse(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		return err
	}
	tables, err := newTables(WriterConfig{Workers: 1}, img.Super, img.fragments)
	must(t, err)
	out := &countingWriter{w: io.Discard, at: int64(img.Super.InodeTable), count: new(atomic.Int64)}
	if _, err := tables.write(t.Context(), img.Root, out); err != nil && !errs.Is(err, errs.Invalid) {
		return fmt.Errorf("what was read cannot be written: %w", errs.New(errs.Internal, "%v", err))
	}
	return nil
}

// assembled makes an image of the unpacked inode and directory tables, stored as they are: bytes that are changed in
// them are read, where those of a packed table are a broken block.
func assembled(inodes, listings []byte, root uint64) []byte {
	const dataSize = 4096
	le := binary.LittleEndian
	out := make([]byte, SuperblockSize+dataSize)
	table := func(b []byte) uint64 {
		at := uint64(len(out))
		for len(b) > 0 {
			n := min(len(b), metaSize)
			out = append(le.AppendUint16(out, uint16(n)|metaRaw), b[:n]...)
			b = b[n:]
		}
		return at
	}
	list := func(b []byte) uint64 {
		block := table(b)
		out = le.AppendUint64(out, block)
		return uint64(len(out)) - 8
	}
	s := Superblock{BlockSize: 4096, Compressor: compressorGzip, IDs: 4, Inodes: uint32(len(inodes) / 16), Fragments: 1, RootInode: root, XattrTable: none, ExportTable: none}
	s.InodeTable, s.DirectoryTable = table(inodes), table(listings)
	s.FragmentTable = list(le.AppendUint64(le.AppendUint32(le.AppendUint64(nil, SuperblockSize), dataSize|storedRaw), 0)[:16])
	s.IDTable = list(make([]byte, 16))
	s.BytesUsed = uint64(len(out))
	head := s.Bytes()
	copy(out, head[:])
	return out
}

// FuzzTables reads what a fuzzer makes of unpacked tables, and writes the tree again.
func FuzzTables(f *testing.F) {
	for _, image := range seeds(f) {
		img, err := Parse(bytes.NewReader(image), int64(len(image)))
		must(f, err)
		s := &source{file: bytes.NewReader(image), end: img.Super.BytesUsed, unpack: img.unpack, budget: 1 << 20}
		inodes, err := s.table("inode table", img.Super.InodeTable, img.Super.DirectoryTable)
		must(f, err)
		raw, err := s.read("directory table", img.Super.DirectoryTable, img.Super.DirectoryTable+2)
		must(f, err)
		n, err := storedLength("directory table", append(raw, make([]byte, metaSize)...))
		must(f, err)
		listings, err := s.table("directory table", img.Super.DirectoryTable, img.Super.DirectoryTable+2+uint64(n))
		must(f, err)
		f.Add(inodes.data, listings.data, img.Super.RootInode)
	}
	f.Fuzz(func(t *testing.T, inodes, listings []byte, root uint64) {
		if len(inodes)+len(listings) > maxFuzzed {
			return
		}
		image := assembled(inodes, listings, root)
		if err := rewrite(t, image); err != nil && !errs.Is(err, errs.Invalid) && !errs.Is(err, errs.Conflict) {
			t.Error(err)
		}
	})
}

// TestMoreInodesThanFit: who writes a tree again makes room for as many inodes as the superblock says there are.
func TestMoreInodesThanFit(t *testing.T) {
	image := small(t, 200)[0]
	binary.LittleEndian.PutUint32(image[4:], 1<<30)
	if _, err := Parse(bytes.NewReader(image), int64(len(image))); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "1073741824 inodes") {
		t.Errorf("%v", err)
	}
}

// FuzzRead changes one of the small images at a place, behind the checks that stop most random bytes early.
func FuzzRead(f *testing.F) {
	images := small(f, 9000)
	for i := range images {
		f.Add(uint8(i), uint32(100), []byte("\xff\xff"))
		f.Add(uint8(i), uint32(48), []byte{0, 1})
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint32, change []byte) {
		image := bytes.Clone(images[int(which)%len(images)])
		copy(image[int(at)%len(image):], change)
		if err := survey(image); err != nil && !errs.Is(err, errs.Invalid) && !errs.Is(err, errs.Conflict) {
			t.Errorf("%v", err)
		}
	})
}

// TestEveryByteMayBeWrong turns over bytes of each small image, all of its head and each time others behind that, and
// cuts it off.
func TestEveryByteMayBeWrong(t *testing.T) {
	each := testenv.Rounds(84, 21)
	turn := int(treetest.Seed(t) % uint64(each))
	for _, image := range small(t, 9000) {
		for at := range image {
			if at < SuperblockSize || at < 2000 && at%(each/7) == turn%(each/7) || at%each == turn {
				broken := bytes.Clone(image)
				broken[at] ^= 0xff
				_ = survey(broken)
				broken[at] ^= 0xff ^ 1
				_ = survey(broken)
			}
		}
		used := binary.LittleEndian.Uint64(image[40:])
		for n := range int(used) {
			if n%each == turn {
				if err := survey(image[:n]); !errs.Is(err, errs.Invalid) {
					t.Fatalf("cut off at %d of %d: %v", n, used, err)
				}
			}
		}
	}
}

// crafted lays an image of stored metadata out of tables that are given byte by byte.
type crafted struct {
	inodes, listings, ids []byte
	root                  uint64
	super                 Superblock
}

func (c crafted) bytes() []byte {
	le := binary.LittleEndian
	b := make([]byte, SuperblockSize)
	meta := func(data []byte) {
		for len(data) > 0 {
			n := min(len(data), metaSize)
			b = append(le.AppendUint16(b, uint16(n)|metaRaw), data[:n]...)
			data = data[n:]
		}
	}
	s := c.super
	s.BlockSize, s.Compressor, s.Inodes, s.RootInode = 4096, compressorGzip, 1, c.root
	s.XattrTable, s.ExportTable, s.FragmentTable, s.IDs = none, none, none, max(s.IDs, 1)
	s.InodeTable = uint64(len(b))
	meta(c.inodes)
	s.DirectoryTable = uint64(len(b))
	meta(c.listings)
	ids := uint64(len(b))
	meta(c.ids)
	s.IDTable = uint64(len(b))
	b = le.AppendUint64(b, ids)
	s.BytesUsed = uint64(len(b))
	head := s.Bytes()
	copy(b, head[:])
	return b
}

func inode(kind uint16, rest ...any) []byte {
	var b bytes.Buffer
	for _, v := range append([]any{kind, uint16(0o755), uint16(0), uint16(0), uint32(0), uint32(1)}, rest...) {
		_ = binary.Write(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

// dirInode is the inode of a directory whose listing of n bytes is at the start of the table.
func dirInode(n int) []byte {
	return inode(1, uint32(0), uint32(2), uint16(n+3), uint16(0), uint32(1))
}

func run1(offset, kind int, name string) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 0), 0), 1)
	for _, v := range []int{offset, 0, kind, len(name) - 1} {
		b = le.AppendUint16(b, uint16(v))
	}
	return append(b, name...)
}

func TestCraftedImages(t *testing.T) {
	id := make([]byte, 4)
	fifo := inode(6, uint32(1))
	with := func(listing, more []byte) crafted {
		return crafted{inodes: append(dirInode(len(listing)), more...), listings: listing, ids: id}
	}
	if err := survey(with(run1(32, 6, "fifo"), fifo).bytes()); err != nil {
		t.Fatalf("the image that all others are made from: %v", err)
	}
	twice := append(run1(32, 6, "same"), run1(32, 6, "same")...)
	huge := inode(9, uint64(96), uint64(1)<<62, uint64(0), uint32(1), uint32(NoFragment), uint32(0), uint32(noXattr))
	tests := map[string]struct {
		image crafted
		want  string
	}{
		"a directory in itself":       {with(run1(0, 1, "loop"), fifo), "two names"},
		"a name with a slash":         {with(run1(32, 6, "a/b"), fifo), "slash"},
		"a name with a zero byte":     {with(run1(32, 6, "a\x00b"), fifo), "zero byte"},
		"dot":                         {with(run1(32, 6, "."), fifo), `"."`},
		"dot dot":                     {with(run1(32, 6, ".."), fifo), `".."`},
		"a long name":                 {with(run1(32, 6, strings.Repeat("n", 257)), fifo), "257"},
		"a name twice":                {with(twice, fifo), "twice"},
		"another kind":                {with(run1(32, 2, "f"), fifo), "type"},
		"inodes that overlap":         {with(append(run1(32, 6, "a"), run1(36, 6, "b")...), append(fifo, fifo...)), "overlap"},
		"an inode beyond the table":   {with(run1(8000, 6, "f"), fifo), "no place"},
		"more entries than bytes":     {crafted{inodes: dirInode(500), listings: run1(32, 6, "f"), ids: id}, "listing"},
		"a file of 4 EiB":             {with(run1(32, 2, "f"), huge), "too few blocks"},
		"a root that is no directory": {crafted{inodes: fifo, listings: run1(0, 6, "f"), ids: id}, "type"},
		"no root":                     {crafted{inodes: fifo, listings: run1(0, 6, "f"), ids: id, root: math.MaxUint64}, "no place"},
		"no such owner":               {crafted{inodes: append([]byte{1, 0, 0, 0, 9, 0}, dirInode(0)[6:]...), listings: run1(0, 6, "f"), ids: id}, "owner"},
		"more owners than listed":     {crafted{inodes: dirInode(0), listings: run1(0, 6, "f"), ids: id, super: Superblock{IDs: 60000}}, "id table"},
	}
	for name, tt := range tests {
		if err := survey(tt.image.bytes()); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBombsTakeLittle gives images of a few KB that claim to be huge.
func TestBombsTakeLittle(t *testing.T) {
	pack, err := newPacker(compressorGzip, Better, metaSize)
	must(t, err)
	zeros := make([]byte, metaSize)
	one := appendMeta(nil, pack(nil, zeros), zeros)
	bomb := crafted{inodes: dirInode(0), listings: run1(0, 6, "f"), ids: make([]byte, 4)}.bytes()
	super, err := ParseSuperblock(bomb)
	must(t, err)
	// An inode table of 20,000 such blocks, 160 MB when unpacked, in 500 KB.
	start := uint64(len(bomb))
	bomb = append(bomb, bytes.Repeat(one, 20000)...)
	super.InodeTable, super.DirectoryTable, super.BytesUsed = start, uint64(len(bomb)), uint64(len(bomb))
	head := super.Bytes()
	copy(bomb, head[:])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = survey(bomb)
	runtime.ReadMemStats(&after)
	if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("%d bytes were taken for %d", took, len(bomb))
	}
}

// broken is a disk with a fault.
type broken struct{ image []byte }

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if off > 100 {
		return 0, os.ErrDeadlineExceeded
	}
	return bytes.NewReader(b.image).ReadAt(p, off)
}

func TestADiskFaultIsNotADamagedImage(t *testing.T) {
	image := small(t, 9000)[0]
	_, err := Parse(broken{image}, int64(len(image)))
	if !errors.Is(err, os.ErrDeadlineExceeded) || errs.Is(err, errs.Invalid) {
		t.Errorf("%v", err)
	}
}
