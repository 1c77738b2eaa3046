package squashfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/images/tree/treetest"
	"slipway/internal/testenv"
)

// wide is a change as a graft would make it: new files of all kinds, a link to one of the base's, one thing deleted.
func wide(t testing.TB, w *Writer, root *Node) *Node {
	r := rand.New(rand.NewPCG(3, 4))
	xattrs := &Xattrs{List: []Xattr{{"security.capability", []byte("\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")}, {"user.one", []byte("1")}}}
	var entries []Entry
	for i, size := range []int{0, 1, 100, 4096, 131071, 131072, 131073, 400000, 1<<20 + 17} {
		for kind, content := range map[string][]byte{"text": text(r, size), "noise": noise(r, size), "zero": make([]byte, size)} {
			n := file(put(t, w, content))
			n.UID, n.GID, n.Mode = uint32(i*1000), uint32(i%2), uint16(0o600+i)
			if i%3 == 0 {
				n.Xattrs = &Xattrs{List: xattrs.List}
			}
			entries = append(entries, Entry{fmt.Sprintf("%s-%d", kind, size), n})
		}
	}
	linked := entries[0].Node
	kinds := dir(
		Entry{"link", &Node{Kind: Symlink, Mode: 0o777, Target: "../\xff\n there"}}, Entry{"fifo", &Node{Kind: Fifo, Mode: 0o600, Xattrs: nil}},
		Entry{"socket", &Node{Kind: Socket, Mode: 0o755}}, Entry{"char", &Node{Kind: CharDevice, Rdev: 1<<8 | 3}},
		Entry{"block", &Node{Kind: BlockDevice, Rdev: 259<<8 | 70000&0xff | 70000&^0xff<<12}}, Entry{"hard", linked},
		Entry{"\xff\xfe\n", linked}, Entry{strings.Repeat("m", 255), file(nil)},
	)
	kinds.Mode, kinds.Xattrs = 0o1777, xattrs
	entries = append(entries, Entry{"kinds", kinds}, Entry{"empty", dir()})
	if old := root.Child("text-4097"); old != nil {
		entries = append(entries, Entry{"old", old})
	}
	children := []Entry{{"added", dir(entries...)}}
	for _, e := range root.Children {
		if e.Name != "noise-4097" {
			children = append(children, e)
		}
	}
	return dir(children...)
}

// TestGraftsAndFreshImages writes on bases of all sorts and compares what our parser, the kernel, unsquashfs and
// squashfuse see with the tree that was given.
func TestGraftsAndFreshImages(t *testing.T) {
	source := nasty(t)
	for _, args := range []string{
		"fresh", "-comp gzip", "-comp zstd -b 4096", "-comp zstd -b 1M", "-comp zstd -no-fragments -no-xattrs",
		"-comp gzip -noI -noD -noF -noX", "-comp zstd -no-exports",
	} {
		t.Run(args, func(t *testing.T) {
			var base []byte
			if args != "fresh" {
				var err error
				base, err = os.ReadFile(mksquashfs(t, source, strings.Fields(args)...))
				must(t, err)
			}
			var given *Node
			image := build(t, base, WriterConfig{}, func(w *Writer, root *Node) *Node {
				given = wide(t, w, root)
				return given
			})
			img := parse(t, image)
			want := lines(t, img, given)
			if base != nil && strings.Contains(strings.Join(want, ""), `"/noise-4097"`) {
				t.Error("what was deleted is still there")
			}
			same(t, "our parser", want, lines(t, img, img.Root))
			path := save(t, image)
			same(t, "the kernel", want, treetest.List(t, mount(t, path)))
			out := filepath.Join(t.TempDir(), "out")
			run(t, "unsquashfs", "-quiet", "-no-progress", "-d", out, path)
			same(t, "unsquashfs", want, treetest.List(t, out))
			throughFuse(t, path, want)
		})
	}
}

func same(t *testing.T, reader string, want, got []string) {
	t.Helper()
	if diff := treetest.Diff(want, got); len(diff) > 0 {
		t.Errorf("%s: %d lines differ:\n%s", reader, len(diff), strings.Join(diff[:min(20, len(diff))], "\n"))
	}
}

func throughFuse(t *testing.T, path string, want []string) {
	t.Helper()
	testenv.Need(t, testenv.Squashfuse)
	point := t.TempDir()
	run(t, "squashfuse", path, point)
	defer run(t, "umount", point)
	got := treetest.List(t, point)
	same(t, "squashfuse", withoutLinks(want), withoutLinks(got))
}

// withoutLinks leaves out which names are of one inode, and xattrs that are not the user's: squashfuse shows neither.
func withoutLinks(list []string) []string {
	out := make([]string, len(list))
	for i, line := range list {
		line, _, _ = strings.Cut(line, " one of ")
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, `"trusted.`) || strings.HasPrefix(word, `"security.`) {
				line = strings.Replace(line, " "+word, "", 1)
			}
		}
		out[i] = line
	}
	return out
}

// TestOutputDoesNotDependOnWorkers also puts more data than the encoders' tables hold, so that one encoder's past
// would show.
func TestOutputDoesNotDependOnWorkers(t *testing.T) {
	base, err := os.ReadFile(mksquashfs(t, nasty(t), "-comp", "zstd"))
	must(t, err)
	for name, base := range map[string][]byte{"fresh": nil, "graft": base} {
		var first []byte
		for _, workers := range []int{1, 2, 7, 1} {
			image := build(t, base, WriterConfig{Workers: workers}, func(w *Writer, root *Node) *Node {
				r := rand.New(rand.NewPCG(5, 6))
				var entries []Entry
				for i := range 20 {
					entries = append(entries, Entry{fmt.Sprintf("big%02d", i), file(put(t, w, append(text(r, r.IntN(400000)), noise(r, r.IntN(300000))...)))})
				}
				for i := range 1000 {
					n := file(put(t, w, text(r, r.IntN(3000))))
					n.UID, n.MTime = uint32(i%50), r.Uint32()
					entries = append(entries, Entry{fmt.Sprintf("small%04d", i), n})
				}
				return dir(Entry{"new", dir(entries...)}, Entry{"base", root})
			})
			if first == nil {
				first = image
			}
			if !bytes.Equal(first, image) {
				t.Errorf("%s: %d workers give other bytes", name, workers)
			}
		}
	}
}

func TestHolesAreKept(t *testing.T) {
	const bs = freshBlockSize
	x := bytes.Repeat([]byte("x"), bs)
	all := make([]byte, 4*bs+100)
	copy(all[2*bs:], x)
	tests := []struct {
		name    string
		content []byte
		extents []Extent
		blocks  int
		sparse  uint64
		want    []Extent
	}{
		{"all zeros", make([]byte, 3*bs), nil, 3, 3 * bs, nil},
		{"zeros with an end", make([]byte, bs+1), nil, 2, bs + 1, nil},
		{"one block of data", all, nil, 5, 3*bs + 100, []Extent{{2 * bs, bs}}},
		{"told by extents", all, []Extent{{2 * bs, bs}}, 5, 3*bs + 100, []Extent{{2 * bs, bs}}},
		{"an end with data", append(make([]byte, bs), 'x'), []Extent{{bs, 1}}, 1, bs, []Extent{{bs, 1}}},
		{"a small hole", make([]byte, 10), []Extent{}, 1, 10, nil},
	}
	for _, tt := range tests {
		var d *Data
		image := build(t, nil, WriterConfig{}, func(w *Writer, _ *Node) *Node {
			d = put(t, w, tt.content, tt.extents...)
			return dir(Entry{"f", file(d)})
		})
		img := parse(t, image)
		r, err := img.Open(img.Lookup("/f"))
		must(t, err)
		if len(d.Blocks) != tt.blocks || d.Sparse != tt.sparse {
			t.Errorf("%s: %d blocks, %d bytes in holes", tt.name, len(d.Blocks), d.Sparse)
		}
		if diff := cmp.Diff(tt.want, r.Extents()); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		if !bytes.Equal(content(t, img, img.Lookup("/f")), tt.content) {
			t.Errorf("%s: other content", tt.name)
		}
	}
}

// unreadable fails where it is read outside of extents.
type unreadable struct{ extents []Extent }

func (u unreadable) ReadAt(p []byte, off int64) (int, error) {
	for _, e := range u.extents {
		if off >= e.Offset && off+int64(len(p)) <= e.Offset+e.Length {
			for i := range p {
				p[i] = byte(off) + byte(i) | 1
			}
			return len(p), nil
		}
	}
	return 0, fmt.Errorf("%d bytes read at %d", len(p), off)
}

func TestHolesAreNotRead(t *testing.T) {
	extents := []Extent{{5, 10}, {100, 1 << 20}, {40 << 30, 4096}, {40<<30 + 8192, 1}}
	build(t, nil, WriterConfig{}, func(w *Writer, _ *Node) *Node {
		d, err := w.Put(t.Context(), unreadable{extents}, 50<<30, extents)
		must(t, err, w.Flush(t.Context()))
		if w.Written() > 2<<20 {
			t.Errorf("%d bytes written for a file of holes", w.Written())
		}
		return dir(Entry{"huge", file(d)})
	})
	w, err := NewWriter(WriterConfig{Out: io.Discard})
	must(t, err)
	defer w.Close()
	for _, bad := range [][]Extent{{{-1, 2}}, {{0, 11}}, {{5, 1}, {4, 1}}, {{0, -1}}} {
		if _, err := w.Put(t.Context(), unreadable{}, 10, bad); err == nil {
			t.Errorf("extents %v are taken", bad)
		}
	}
}

func TestShortFilesLeaveTheWriterWhole(t *testing.T) {
	good := text(rand.New(rand.NewPCG(1, 1)), 500000)
	image := build(t, nil, WriterConfig{}, func(w *Writer, _ *Node) *Node {
		for _, size := range []int64{10, freshBlockSize, 3*freshBlockSize + 7} {
			if _, err := w.Put(t.Context(), bytes.NewReader(good[:size-1]), size, nil); !errors.Is(err, ErrShort) {
				t.Errorf("%d: %v", size, err)
			}
		}
		return dir(Entry{"good", file(put(t, w, good))})
	})
	img := parse(t, image)
	if !bytes.Equal(content(t, img, img.Lookup("/good")), good) {
		t.Error("the file behind short ones is another")
	}
	short := build(t, nil, WriterConfig{}, func(w *Writer, root *Node) *Node {
		if _, err := w.Put(t.Context(), bytes.NewReader(nil), 10, nil); !errors.Is(err, ErrShort) {
			t.Errorf("%v", err)
		}
		return root
	})
	if parse(t, short).Super.Fragments != 0 {
		t.Error("an empty fragment was written")
	}
}

// failing takes some bytes and no more.
type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return len(p), nil
}

func TestAFullDiskIsTold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, left := range []int{0, 100, 200000, 3 << 20, 4<<20 + 30} {
		w, err := NewWriter(WriterConfig{Out: &failing{left}, Workers: 2})
		must(t, err)
		err = func() error {
			for range 4 {
				if _, err := w.Put(t.Context(), bytes.NewReader(noise(r, 1<<20)), 1<<20, nil); err != nil {
					return err
				}
			}
			_, err := w.Finish(t.Context(), dir(Entry{"f", file(nil)}))
			return err
		}()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes left: %v", left, err)
		}
		w.Close()
		w.Close()
	}
}

func TestAWriterEnds(t *testing.T) {
	w, err := NewWriter(WriterConfig{Out: io.Discard})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	put(t, w, []byte("x"))
	cancel()
	if _, err := w.Put(ctx, bytes.NewReader(make([]byte, 1<<20)), 1<<20, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if _, err := w.Finish(ctx, dir()); !errors.Is(err, context.Canceled) {
		t.Errorf("finish: %v", err)
	}
	w.Close()
	if _, err := w.Put(t.Context(), bytes.NewReader(nil), 0, nil); err == nil {
		t.Error("a closed writer takes files")
	}
	if w.Flush(t.Context()) == nil {
		t.Error("a closed writer is flushed")
	}
}

func TestLevels(t *testing.T) {
	sizes := map[Level]int{}
	var content []byte
	for i := 0; len(content) < 1<<20; i++ {
		content = fmt.Appendf(content, "%d bottles of %x on the wall\n", i, i*i)
	}
	for _, level := range []Level{Fast, Better, Store} {
		image := build(t, nil, WriterConfig{Level: level}, func(w *Writer, _ *Node) *Node { return dir(Entry{"f", file(put(t, w, content))}) })
		sizes[level] = len(image)
		img := parse(t, image)
		if !bytes.Equal(content, read(t, img, "/f")) {
			t.Errorf("level %d: other content", level)
		}
	}
	if sizes[Better] >= sizes[Store] || sizes[Fast] >= sizes[Store] || sizes[Better] == sizes[Fast] || sizes[Store] < 1<<20 {
		t.Errorf("sizes %v", sizes)
	}
}
