package compare

import (
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// image is a folder of a squashfs.
type image struct {
	of     *squashfs.Image
	node   *squashfs.Node
	linked map[*squashfs.Node]bool // what stands under several names
}

func newImage(of *squashfs.Image) *image {
	return &image{of: of, node: of.Root, linked: linked(of.Root)}
}

// linked finds the nodes with several names. What it needs meanwhile is a small part of what the tree takes.
func linked(root *squashfs.Node) map[*squashfs.Node]bool {
	seen, out := map[*squashfs.Node]struct{}{}, map[*squashfs.Node]bool{}
	var walk func(n *squashfs.Node)
	walk = func(n *squashfs.Node) {
		for _, e := range n.Children {
			if e.Node.Kind == squashfs.Dir {
				walk(e.Node)
				continue
			}
			if _, again := seen[e.Node]; again {
				out[e.Node] = true
			}
			seen[e.Node] = struct{}{}
		}
	}
	walk(root)
	return out
}

func (i *image) close()               {}
func (i *image) self() (entry, error) { return i.describe(i.node), nil }

func (i *image) names() ([]string, error) {
	list := make([]string, len(i.node.Children))
	for k, e := range i.node.Children {
		list[k] = e.Name
	}
	if !slices.IsSorted(list) {
		return nil, errs.New(errs.Invalid, "a directory of the squashfs is not in order")
	}
	return list, nil
}

func (i *image) child(name string) (*squashfs.Node, error) {
	n := i.node.Child(name)
	if n == nil {
		return nil, errs.New(errs.Invalid, "the squashfs lists %q and lacks it", name)
	}
	return n, nil
}

func (i *image) entry(name string) (entry, error) {
	n, err := i.child(name)
	if err != nil {
		return entry{}, err
	}
	return i.describe(n), nil
}

func (i *image) folder(name string) (folder, error) {
	n, err := i.child(name)
	return &image{i.of, n, i.linked}, err
}

func (i *image) describe(n *squashfs.Node) entry {
	e := entry{
		format: formatOf(n.Kind), mode: uint32(n.Mode), uid: n.UID, gid: n.GID, mtime: int64(n.MTime), target: n.Target,
		size: n.Size(),
	}
	if e.isDevice() {
		e.major, e.minor = n.Rdev>>8&0xfff, n.Rdev&0xff|n.Rdev>>12&0xfff00
	}
	if n.Xattrs != nil {
		for _, x := range n.Xattrs.List {
			e.xattrs = append(e.xattrs, tree.Xattr{Name: x.Name, Value: x.Value})
		}
	}
	if i.linked[n] {
		e.file = n
	}
	return e
}

func formatOf(k squashfs.Kind) uint32 {
	formats := [...]uint32{
		squashfs.Dir: unix.S_IFDIR, squashfs.File: unix.S_IFREG, squashfs.Symlink: unix.S_IFLNK,
		squashfs.BlockDevice: unix.S_IFBLK,
		squashfs.CharDevice:  unix.S_IFCHR, squashfs.Fifo: unix.S_IFIFO, squashfs.Socket: unix.S_IFSOCK,
	}
	if int(k) >= len(formats) {
		return 0
	}
	return formats[k]
}

func (i *image) open(name string, _ entry) (content, error) {
	n, err := i.child(name)
	if err != nil {
		return nil, err
	}
	r, err := i.of.Open(n)
	if err != nil {
		return nil, err
	}
	s := &stored{Reader: r}
	if n.Data != nil && n.Data.Sparse > 0 {
		s.extents, s.sparse = r.Extents(), true
	}
	return s, nil
}

// stored is the content of a squashfs's file.
type stored struct {
	*squashfs.Reader
	extents []squashfs.Extent
	sparse  bool
}

func (s *stored) Close() error { return nil }
func (s *stored) same() error  { return nil }

// data is asked for ever later positions, so what lies before them is forgotten.
func (s *stored) data(off int64) int64 {
	if !s.sparse {
		return off
	}
	for len(s.extents) > 0 && s.extents[0].Offset+s.extents[0].Length <= off {
		s.extents = s.extents[1:]
	}
	if len(s.extents) == 0 {
		return math.MaxInt64
	}
	return max(off, s.extents[0].Offset)
}
