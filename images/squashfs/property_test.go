package squashfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"slipway/images/tree/treetest"
)

// grower makes random trees. A tree may take nodes over from another image, as a graft does.
type grower struct {
	t    testing.TB
	r    *rand.Rand
	w    *Writer
	old  []*Node // that are no directories
	made []*Node
	left int
}

func (g *grower) dir(depth int) *Node {
	d := g.attributes(&Node{Kind: Dir})
	names := map[string]bool{}
	for range g.r.IntN(40) {
		name := g.name()
		if names[name] || g.left <= 0 {
			continue
		}
		names[name] = true
		g.left--
		d.Children = append(d.Children, Entry{name, g.node(depth)})
	}
	slices.SortFunc(d.Children, byName)
	return d
}

func (g *grower) name() string {
	b := noise(g.r, 1+g.r.IntN(1+g.r.IntN(255)))
	for i := range b {
		if g.r.IntN(20) > 0 || b[i] == 0 || b[i] == '/' || b[i] == '.' {
			b[i] = 'a' + b[i]%26
		}
	}
	return string(b)
}

func (g *grower) node(depth int) *Node {
	switch k := g.r.IntN(20); {
	case k < 4 && depth < 12:
		return g.dir(depth + 1)
	case k < 6 && len(g.made) > 0:
		return g.made[g.r.IntN(len(g.made))]
	case k < 8 && len(g.old) > 0:
		return g.old[g.r.IntN(len(g.old))]
	}
	n := g.attributes(&Node{Kind: []Kind{File, File, File, File, File, File, Symlink, BlockDevice, CharDevice, Fifo, Socket}[g.r.IntN(11)]})
	switch n.Kind {
	case File:
		n.Data = g.content()
	case Symlink:
		n.Target = g.name()
	case BlockDevice, CharDevice:
		n.Rdev = g.r.Uint32N(4096)<<8 | g.r.Uint32N(256)
	}
	g.made = append(g.made, n)
	return n
}

func (g *grower) attributes(n *Node) *Node {
	n.Mode, n.UID, n.GID, n.MTime = uint16(g.r.IntN(0o10000)), g.r.Uint32N(1+g.r.Uint32()), g.r.Uint32N(5), g.r.Uint32()
	if g.r.IntN(8) > 0 {
		return n
	}
	n.Xattrs = &Xattrs{List: []Xattr{{"trusted.x", noise(g.r, g.r.IntN(300))}}}
	if n.Kind == File || n.Kind == Dir {
		n.Xattrs.List = append(n.Xattrs.List, Xattr{"user." + fmt.Sprint(g.r.IntN(3)), text(g.r, 1+g.r.IntN(3))})
	}
	return n
}

// content puts a file of random pieces: noise, text and holes, told or not.
func (g *grower) content() *Data {
	var b []byte
	var extents []Extent
	for range g.r.IntN(4) {
		n := g.r.IntN(1 << g.r.IntN(19))
		switch g.r.IntN(3) {
		case 0:
			extents = append(extents, Extent{int64(len(b)), int64(n)})
			b = append(b, noise(g.r, n)...)
		case 1:
			extents = append(extents, Extent{int64(len(b)), int64(n)})
			b = append(b, text(g.r, n)...)
		default:
			b = append(b, make([]byte, n)...)
		}
	}
	if g.r.IntN(2) == 0 {
		extents = nil
	}
	return put(g.t, g.w, b, extents...)
}

// TestRandomTrees writes a random tree, grafts another one on it, and asks the kernel what it sees.
func TestRandomTrees(t *testing.T) {
	seed := treetest.Seed(t)
	for round := range uint64(8) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			g := &grower{t: t, r: rand.New(rand.NewPCG(seed, round))}
			grow := func(w *Writer, root *Node) *Node {
				g.w, g.old, g.made, g.left = w, nil, nil, 400
				must(t, root.Walk(func(_ string, n *Node) error {
					if n.Kind != Dir {
						g.old = append(g.old, n)
					}
					return nil
				}))
				grown := g.dir(0)
				for len(grown.Children) < 3 {
					g.left = 400
					grown = g.dir(0)
				}
				return grown
			}
			base := build(t, nil, WriterConfig{Workers: 2}, grow)
			var given *Node
			image := build(t, base, WriterConfig{Workers: 2}, func(w *Writer, root *Node) *Node {
				given = grow(w, root)
				return given
			})
			img := parse(t, image)
			want := lines(t, img, given)
			same(t, "our parser", want, lines(t, img, img.Root))
			same(t, "the kernel", want, treetest.List(t, mount(t, save(t, image))))
		})
	}
}

// TestRandomReads compares every way of reading with the content.
func TestRandomReads(t *testing.T) {
	r := rand.New(rand.NewPCG(treetest.Seed(t), 0))
	for _, args := range []string{"-comp gzip -b 4096", "-comp zstd", "-comp zstd -no-fragments -b 64K"} {
		img := open(t, mksquashfs(t, nasty(t), strings.Fields(args)...))
		for _, name := range []string{"/text-300000", "/noise-131073", "/zeros", "/sparse", "/text-1048577", "/text-4097", "/text-0"} {
			whole := read(t, img, name)
			f, err := img.Open(img.Lookup(name))
			must(t, err)
			for range 50 {
				off := r.IntN(len(whole) + 1)
				p := make([]byte, r.IntN(1<<r.IntN(20)))
				n, err := f.ReadAt(p, int64(off))
				if n != min(len(p), len(whole)-off) || (err == nil) != (n == len(p)) || !bytes.Equal(p[:n], whole[off:off+n]) {
					t.Fatalf("%s %s: %d of %d at %d: %v", args, name, n, len(p), off, err)
				}
			}
			some := make([]byte, min(100, len(whole)))
			n, err := f.Read(some)
			must(t, err)
			var rest bytes.Buffer
			if _, err := f.WriteTo(&rest); err != nil || !bytes.Equal(append(some[:n], rest.Bytes()...), whole) {
				t.Errorf("%s %s: read and written on, %v", args, name, err)
			}
		}
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	c := newCache(1000)
	for i := range 100 {
		c.put(blockKey{start: uint64(i)}, make([]byte, 100))
		c.get(blockKey{})
	}
	if c.order.Len() != 10 || len(c.byKey) != 10 || c.left != 0 {
		t.Errorf("%d blocks, %d bytes left", c.order.Len(), c.left)
	}
	if _, found := c.get(blockKey{}); !found {
		t.Error("what is used most was dropped")
	}
	if _, found := c.get(blockKey{start: 1}); found {
		t.Error("what was used long ago is kept")
	}
}

func TestOpenTakesFilesAlone(t *testing.T) {
	img := parse(t, build(t, nil, WriterConfig{}, func(w *Writer, root *Node) *Node { return root }))
	for _, n := range []*Node{dir(), {Kind: Symlink}, file(&Data{Size: 5, Fragment: 3}), file(&Data{Size: 1 << 40, Fragment: NoFragment})} {
		if _, err := img.Open(n); err == nil {
			t.Errorf("%+v can be read", n)
		}
	}
}
