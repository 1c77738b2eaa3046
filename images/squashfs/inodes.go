package squashfs

import (
	"encoding/binary"
	"slices"
)

// extended is what the number of an extended inode is larger by than that of its basic form.
const extended = 7

// walk turns the tables into a tree. Nodes, data and children are cut from slabs: one allocation for each would cost
// more than all else. An inode is made once, at its place in the table, which bounds the tree by the table's size.
type walk struct {
	super    Superblock
	ids      []uint32
	xattrs   []*Xattrs
	inodes   *table
	listings *table

	text string // the listings, of which all names are parts
	// Which node begins in each 16 bytes of the inode table, by its place in made, + 1. No inode is shorter.
	cells   []int32
	made    []madeNode
	pending []pendingDir
	entries int
	most    int // entries that are read

	nodes    slab[Node]
	data     slab[Data]
	words    slab[uint32]
	children slab[Entry]
	scratch  []Entry
	targets  int
}

type madeNode struct {
	at   int
	node *Node
}

// pendingDir is a directory whose listing has not been read.
type pendingDir struct {
	node   *Node
	block  uint32
	offset uint16
	length int
	depth  int
}

// tree reads all directories from the root down.
func (w *walk) tree() (*Node, error) {
	w.text = string(w.listings.data)
	w.cells = make([]int32, len(w.inodes.data)/16+1)
	at, err := w.inodes.reference(w.super.RootInode)
	if err != nil {
		return nil, err
	}
	root, err := w.node(at, Dir, 0)
	if err != nil {
		return nil, err
	}
	for len(w.pending) > 0 {
		d := w.pending[len(w.pending)-1]
		w.pending = w.pending[:len(w.pending)-1]
		if err := w.list(d); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// node returns the inode at a place in the table, the same one each time: that is how hard links are kept.
func (w *walk) node(at int, kind Kind, depth int) (*Node, error) {
	if i := w.cells[at/16]; i != 0 {
		m := w.made[i-1]
		if m.at != at {
			return nil, corrupt("inodes overlap at %d and %d", m.at, at)
		}
		if kind == Dir || m.node.Kind != kind {
			return nil, corrupt("the inode at %d stands under two names", at)
		}
		return m.node, nil
	}
	n := w.nodes.one()
	n.serial = uint32(len(w.made)) + 1
	if err := w.decode(n, at, kind, depth); err != nil {
		return nil, err
	}
	w.made = append(w.made, madeNode{at: at, node: n})
	w.cells[at/16] = int32(len(w.made))
	return n, nil
}

// decode reads an inode.
func (w *walk) decode(n *Node, at int, kind Kind, depth int) error {
	c := cursor{b: w.inodes.data[at:]}
	typ := c.u16()
	n.Mode = c.u16() & 0o7777
	uid, gid := int(c.u16()), int(c.u16())
	n.MTime = c.u32()
	c.u32() // its number, which a tree has no use for
	n.Kind = Kind(typ)
	ext := typ > uint16(Socket)
	if ext {
		n.Kind = Kind(typ - extended)
	}
	if typ == 0 || typ > uint16(Socket)+extended || n.Kind != kind {
		return corrupt("the inode at %d is of type %d, its entry says %d", at, typ, kind)
	}
	if uid >= len(w.ids) || gid >= len(w.ids) {
		return corrupt("the inode at %d has owner %d:%d of %d", at, uid, gid, len(w.ids))
	}
	n.UID, n.GID = w.ids[uid], w.ids[gid]
	xattr, err := w.body(n, &c, ext, depth)
	if err != nil {
		return err
	}
	if c.short {
		return corrupt("the inode at %d is cut off", at)
	}
	if xattr != noXattr {
		if uint64(xattr) >= uint64(len(w.xattrs)) {
			return corrupt("the inode at %d has xattr set %d of %d", at, xattr, len(w.xattrs))
		}
		n.Xattrs = w.xattrs[xattr]
	}
	return nil
}

const noXattr = 0xffffffff

// body reads what the kinds of inode have each for themselves, and gives the index of the xattrs.
func (w *walk) body(n *Node, c *cursor, ext bool, depth int) (uint32, error) {
	xattr := uint32(noXattr)
	switch n.Kind {
	case Dir:
		return w.directory(n, c, ext, depth)
	case File:
		return w.file(n, c, ext)
	case Symlink:
		c.u32()
		target := c.take(uint64(c.u32()))
		if slices.Contains(target, 0) {
			return 0, corrupt("a link's target holds a zero byte")
		}
		n.Target = string(target)
		w.targets += len(target)
	case BlockDevice, CharDevice:
		c.u32()
		n.Rdev = c.u32()
	default:
		c.u32()
	}
	if ext {
		xattr = c.u32()
	}
	return xattr, nil
}

func (w *walk) directory(n *Node, c *cursor, ext bool, depth int) (uint32, error) {
	d := pendingDir{node: n, depth: depth}
	xattr := uint32(noXattr)
	if ext {
		c.u32()
		d.length = int(c.u32())
		d.block = c.u32()
		c.u32()
		c.u16() // the index is of use only to who looks up a name in the listing
		d.offset = c.u16()
		xattr = c.u32()
	} else {
		d.block = c.u32()
		c.u32()
		d.length = int(c.u16())
		d.offset = c.u16()
		c.u32()
	}
	if depth > maxDepth {
		return 0, corrupt("directories are more than %d deep", maxDepth)
	}
	d.length = max(d.length-3, 0) // for "." and "..", which are not there
	w.pending = append(w.pending, d)
	return xattr, nil
}

func (w *walk) file(n *Node, c *cursor, ext bool) (uint32, error) {
	var d Data
	xattr := uint32(noXattr)
	if ext {
		d.Start, d.Size, d.Sparse = c.u64(), c.u64(), c.u64()
		c.u32()
		d.Fragment, d.Offset = c.u32(), c.u32()
		xattr = c.u32()
	} else {
		d.Start, d.Fragment, d.Offset, d.Size = uint64(c.u32()), c.u32(), c.u32(), uint64(c.u32())
	}
	if c.short || d.Size == 0 {
		return xattr, nil
	}
	stored := c.take(4 * min(d.blocks(w.super.BlockSize), 1<<40))
	if c.short || d.Size > 1<<62 {
		return 0, corrupt("a file of %d bytes lists too few blocks", d.Size)
	}
	d.Blocks = w.words.many(len(stored) / 4)
	for i := range d.Blocks {
		d.Blocks[i] = binary.LittleEndian.Uint32(stored[4*i:])
	}
	n.Data = w.data.one()
	*n.Data = d
	return xattr, d.check(w.super)
}

// check says whether all of the content lies where data can lie.
func (d *Data) check(s Superblock) error {
	var stored uint64
	for _, word := range d.Blocks {
		if err := checkBlock(word, s.BlockSize); err != nil {
			return err
		}
		stored += uint64(word & lengthMask)
	}
	if stored > 0 && (d.Start < SuperblockSize || d.Start > s.InodeTable || stored > s.InodeTable-d.Start) {
		return corrupt("a file's data is at %d with %d bytes, behind the data", d.Start, stored)
	}
	if d.Fragment == NoFragment {
		return nil
	}
	if rest := d.Size % uint64(s.BlockSize); d.Fragment >= s.Fragments || uint64(d.Offset)+rest > uint64(s.BlockSize) {
		return corrupt("a file's end is in fragment %d of %d at %d", d.Fragment, s.Fragments, d.Offset)
	}
	return nil
}

// blocks counts the block words: a rest that lies in a fragment has none.
func (d *Data) blocks(blockSize uint32) uint64 {
	n := d.Size / uint64(blockSize)
	if d.Fragment == NoFragment && d.Size%uint64(blockSize) != 0 {
		n++
	}
	return n
}

func (w *walk) memory() int64 {
	return w.nodes.bytes + w.data.bytes + w.words.bytes + w.children.bytes + int64(len(w.text)+w.targets)
}
