package squashfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// mksquashfs packs a directory and gives the image's path.
func mksquashfs(t testing.TB, dir string, args ...string) string {
	t.Helper()
	testenv.Need(t, testenv.Mksquashfs)
	path := filepath.Join(t.TempDir(), "made.sqfs")
	run(t, "mksquashfs", append([]string{dir, path, "-noappend", "-no-progress", "-quiet"}, args...)...)
	return path
}

func run(t testing.TB, program string, args ...string) {
	t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}

// open parses the image in a file.
func open(t testing.TB, path string) *Image {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	st, err := f.Stat()
	must(t, err)
	img, err := Parse(f, st.Size())
	must(t, err)
	return img
}

func parse(t testing.TB, image []byte) *Image {
	t.Helper()
	img, err := Parse(bytes.NewReader(image), int64(len(image)))
	must(t, err)
	return img
}

// put stores a content as a file.
func put(t testing.TB, w *Writer, content []byte, extents ...Extent) *Data {
	t.Helper()
	d, err := w.Put(t.Context(), bytes.NewReader(content), int64(len(content)), extents)
	must(t, err)
	return d
}

// build makes an image: base is a whole image to graft on, or nil.
func build(t testing.TB, base []byte, cfg WriterConfig, fill func(w *Writer, root *Node) *Node) []byte {
	t.Helper()
	cut := int64(SuperblockSize)
	root := dir()
	if base != nil {
		cfg.Base = parse(t, base)
		cut, root = cfg.Base.Cut(), cfg.Base.Root
	}
	var tail bytes.Buffer
	cfg.Out = &tail
	w, err := NewWriter(cfg)
	must(t, err)
	defer w.Close()
	super, err := w.Finish(t.Context(), fill(w, root))
	must(t, err)
	if w.Written() != int64(tail.Len()) {
		t.Errorf("written %d, out has %d", w.Written(), tail.Len())
	}
	head := super.Bytes()
	image := slices.Clone(head[:])
	if base != nil {
		image = append(image, base[SuperblockSize:cut]...)
	}
	image = append(image, tail.Bytes()...)
	if len(image)%PadTo != 0 || super.BytesUsed > uint64(len(image)) {
		t.Errorf("the image has %d bytes, of which %d are used", len(image), super.BytesUsed)
	}
	return image
}

func save(t testing.TB, image []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.sqfs")
	must(t, os.WriteFile(path, image, 0o644))
	return path
}

func dir(entries ...Entry) *Node {
	slices.SortFunc(entries, byName)
	return &Node{Kind: Dir, Mode: 0o755, MTime: 1700000000, Children: entries}
}

func file(d *Data) *Node { return &Node{Kind: File, Mode: 0o644, MTime: 1600000000, Data: d} }

// mount mounts an image through the kernel.
func mount(t testing.TB, path string) string {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Loop)
	point := t.TempDir()
	run(t, "mount", "-t", "squashfs", "-o", "loop,ro", path, point)
	t.Cleanup(func() { must(t, unix.Unmount(point, 0)) })
	return point
}

// lines describes an image as treetest.List does a directory.
func lines(t testing.TB, img *Image, root *Node) []string {
	t.Helper()
	names, first := map[*Node]int{}, map[*Node]string{}
	must(t, root.Walk(func(path string, n *Node) error {
		if names[n]++; names[n] == 1 {
			first[n] = path
		}
		return nil
	}))
	var out []string
	must(t, root.Walk(func(path string, n *Node) error {
		line := fmt.Sprintf("%q %s", path, describe(t, img, n))
		if names[n] > 1 {
			line += fmt.Sprintf(" one of %d names of %q", names[n], first[n])
		}
		out = append(out, line)
		return nil
	}))
	slices.Sort(out)
	return out
}

func describe(t testing.TB, img *Image, n *Node) string {
	bits := map[Kind]uint32{
		Dir: unix.S_IFDIR, File: unix.S_IFREG, Symlink: unix.S_IFLNK, BlockDevice: unix.S_IFBLK, CharDevice: unix.S_IFCHR,
		Fifo: unix.S_IFIFO, Socket: unix.S_IFSOCK,
	}
	var line strings.Builder
	fmt.Fprintf(&line, "mode %06o owner %d:%d mtime %d", uint32(n.Mode)|bits[n.Kind], n.UID, n.GID, n.MTime)
	if n.Kind == BlockDevice || n.Kind == CharDevice {
		fmt.Fprintf(&line, " device %d:%d", n.Rdev>>8&0xfff, n.Rdev&0xff|n.Rdev>>12&^0xff)
	}
	if n.Xattrs != nil {
		for _, x := range n.Xattrs.List {
			fmt.Fprintf(&line, " %q=%x", x.Name, x.Value)
		}
	}
	switch n.Kind {
	case Symlink:
		fmt.Fprintf(&line, " -> %q", n.Target)
	case File:
		fmt.Fprintf(&line, " size %d sha256 %s", n.Size(), sumOf(t, img, n))
	}
	return line.String()
}

func content(t testing.TB, img *Image, n *Node) []byte {
	t.Helper()
	var out bytes.Buffer
	writeTo(t, img, n, &out)
	return out.Bytes()
}

func sumOf(t testing.TB, img *Image, n *Node) string {
	t.Helper()
	sum := sha256.New()
	writeTo(t, img, n, sum)
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

func writeTo(t testing.TB, img *Image, n *Node, out io.Writer) {
	t.Helper()
	r, err := img.Open(n)
	must(t, err)
	if written, err := r.WriteTo(out); err != nil || written != r.Size() {
		t.Fatalf("%d bytes of %d, %v", written, r.Size(), err)
	}
}

// text returns bytes that compress, noise such that do not.
func text(r *rand.Rand, n int) []byte {
	out := noise(r, n)
	for i, b := range out {
		out[i] = "etaoin shrdlu\n,."[b%16]
	}
	return out
}

func noise(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], r.Uint64())
	_, _ = rand.NewChaCha8(seed).Read(out) // which never fails
	return out
}

// nasty fills a directory with all that a file system can hold and a format can get wrong.
func nasty(t testing.TB) string {
	t.Helper()
	testenv.Need(t, testenv.Root)
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 4095, 4096, 4097, 8192, 131071, 131072, 131073, 300000, 1 << 20, 1<<20 + 1} {
		must(t, os.WriteFile(at(fmt.Sprintf("text-%d", size)), text(r, size), 0o644), os.WriteFile(at(fmt.Sprintf("noise-%d", size)), noise(r, size), 0o600))
	}
	must(t, os.WriteFile(at("zeros"), make([]byte, 700001), 0o644), os.WriteFile(at("sparse"), nil, 0o640), sparse(at("sparse"), 6<<20, 3<<20+5))
	must(t, os.WriteFile(at("hole"), nil, 0o640), os.Truncate(at("hole"), 5000))
	must(t, os.MkdirAll(at("deep"+strings.Repeat("/d", 60)), 0o755), os.MkdirAll(at("empty"), 0o1777), os.Mkdir(at("many"), 0o2755))
	for i := range 3000 {
		must(t, os.WriteFile(at(fmt.Sprintf("many/file-%d", i*7919%3001)), fmt.Append(nil, i), 0o644))
	}
	for _, name := range []string{"sp ace", "new\nline", "\xff\xfe invalid", "ünï", ".wh.x", strings.Repeat("n", 255), "a-b", "a.b", "a"} {
		must(t, os.WriteFile(at(name), []byte(name), 0o644))
	}
	must(t, os.Link(at("text-4097"), at("many/link")), os.Link(at("text-4097"), at("zz-link")), os.Link(at("noise-300000"), at("empty/link")))
	must(t, os.Symlink("nowhere", at("dangling")), os.Symlink("many/link", at("link")), unix.Link(at("dangling"), at("dangling-too")))
	must(t, unix.Mkfifo(at("fifo"), 0o600), unix.Mknod(at("char"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		unix.Mknod(at("block"), unix.S_IFBLK|0o660, int(unix.Mkdev(259, 70000))), unix.Mknod(at("socket"), unix.S_IFSOCK|0o700, 0))
	must(t, os.Chown(at("text-1"), 1000, 100000), os.Lchown(at("link"), 7, 8), os.Chmod(at("noise-1"), os.ModeSetuid|os.ModeSetgid|0o755), os.Chmod(at("noise-0"), 0))
	long := bytes.Repeat([]byte("value "), 600)
	for _, name := range []string{"text-1", "text-4096", "many", "many/file-5", "fifo", ".", "link", "zz-link"} {
		space := "user.long"
		if name == "fifo" || name == "link" {
			space = "trusted.long"
		}
		must(t, unix.Lsetxattr(at(name), space, long, 0), unix.Lsetxattr(at(name), "trusted.each", []byte(name), 0))
	}
	must(t, unix.Lsetxattr(at("noise-1"), "security.capability", []byte("\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0))
	return root
}

func sparse(path string, size, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), at); err != nil {
		return err
	}
	return f.Truncate(size)
}

var _ io.WriterTo = (*Reader)(nil)

func read(t testing.TB, img *Image, path string) []byte {
	t.Helper()
	n := img.Lookup(path)
	if n == nil {
		t.Fatalf("%s is not there", path)
	}
	return content(t, img, n)
}
