package squashfs

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"sync/atomic"
)

// tables writes what stands behind the data.
type tables struct {
	super       Superblock
	packers     []packer
	fragments   []byte
	maxPosition uint64 // the last position in a table that a reference can hold; less in tests

	root   *Node
	plan   *plan
	ids    idTable
	xattrs xattrTable

	inodes   *metaWriter
	listings *metaWriter
	starts   []uint64 // of the blocks with inodes that are no directories
	filesAt  []uint32 // where the inode of each file begins, unpacked
	dirsAt   []place
	buf      []byte
}

func newTables(cfg WriterConfig, super Superblock, fragments []byte) (*tables, error) {
	t := &tables{super: super, fragments: fragments, packers: make([]packer, cfg.Workers), maxPosition: math.MaxUint32}
	for i := range t.packers {
		var err error
		if t.packers[i], err = newPacker(super.Compressor, Fast, metaSize); err != nil {
			return nil, err
		}
	}
	t.inodes, t.listings = newMetaWriter(t.packers), newMetaWriter(t.packers)
	t.ids.byID = map[uint32]uint16{}
	t.xattrs = xattrTable{pairs: newMetaWriter(t.packers), byPlace: map[*Xattrs]uint32{}, byBytes: map[string]uint32{}}
	return t, nil
}

// write lays the tables down where out is, and pads the image.
func (t *tables) write(ctx context.Context, root *Node, out *countingWriter) (Superblock, error) {
	var err error
	if t.plan, err = newPlan(root, int(min(t.super.Inodes, 1<<21))); err != nil {
		return Superblock{}, err
	}
	t.root = root
	if err := t.writeFiles(); err != nil {
		return Superblock{}, err
	}
	if err := ctx.Err(); err != nil {
		return Superblock{}, err
	}
	if err := t.writeDirs(); err != nil {
		return Superblock{}, err
	}
	return t.lay(out)
}

// lay writes the tables in their order and fills in the superblock.
func (t *tables) lay(out *countingWriter) (Superblock, error) {
	s := t.super
	s.Inodes, s.IDs, s.Fragments = t.plan.inodes(), uint16(len(t.ids.list)), uint32(len(t.fragments)/16)
	s.RootInode = t.dirsAt[len(t.dirsAt)-1].reference()
	s.ExportTable, s.FragmentTable, s.XattrTable = none, none, none
	s.InodeTable = out.pos()
	out.put(t.inodes.out)
	s.DirectoryTable = out.pos()
	out.put(t.listings.out)
	s.Flags &^= flagDuplicates | flagExportable
	if s.Fragments > 0 {
		s.Flags &^= flagNoFragments
		s.FragmentTable = t.listed(out, t.fragments)
	}
	s.IDTable = t.listed(out, t.ids.bytes())
	s.Flags |= flagNoXattrs
	if len(t.xattrs.entries) > 0 {
		s.Flags &^= flagNoXattrs
		s.XattrTable = t.xattrs.lay(t, out)
	}
	s.BytesUsed = out.pos()
	out.put(make([]byte, (PadTo-s.BytesUsed%PadTo)%PadTo))
	return s, out.err
}

// listed writes a table and behind it the list of its blocks, whose position it gives.
func (t *tables) listed(out *countingWriter, b []byte) uint64 {
	m := newMetaWriter(t.packers)
	var list []byte
	for i, start := range m.bulk(b) {
		if i*metaSize < len(b) {
			list = binary.LittleEndian.AppendUint64(list, out.pos()+start)
		}
	}
	m.flush()
	out.put(m.out)
	at := out.pos()
	out.put(list)
	return at
}

// limit makes the error of a node that takes the image beyond what the format holds.
func (t *tables) limit(n *Node, format string, args ...any) error {
	return invalid("store %q: %w", pathOf(t.root, n), invalid(format, args...))
}

// writeFiles writes all inodes that are no directories.
func (t *tables) writeFiles() error {
	p := t.plan
	t.filesAt = make([]uint32, len(p.files))
	b := make([]byte, 0, 48*len(p.files))
	for i, n := range p.files {
		if uint64(len(b)) > t.maxPosition {
			return t.limit(n, "the inode table has more than %d bytes", t.maxPosition)
		}
		t.filesAt[i] = uint32(len(b))
		var err error
		if b, err = t.file(b, n, uint32(i)+1, p.links[i]); err != nil {
			return err
		}
	}
	t.starts = t.inodes.bulk(b)
	return nil
}

// writeDirs writes the listing and the inode of each directory.
func (t *tables) writeDirs() error {
	t.dirsAt = make([]place, len(t.plan.dirs))
	for i := range t.plan.dirs {
		l, err := t.list(&t.plan.dirs[i])
		if err != nil {
			return err
		}
		t.dirsAt[i] = t.inodes.place()
		if err := t.directory(uint32(i), l); err != nil {
			return err
		}
	}
	t.inodes.flush()
	t.listings.flush()
	return nil
}

// place tells where the inode of a listing's entry is.
func (t *tables) place(kid uint32) place {
	if kid&isDir != 0 {
		return t.dirsAt[kid&^isDir]
	}
	at := t.filesAt[kid]
	return place{block: t.starts[at/metaSize], offset: uint16(at % metaSize)}
}

// idTable collects owners in the order of their first use.
type idTable struct {
	list []uint32
	byID map[uint32]uint16
}

func (t *idTable) index(id uint32) (uint16, bool) {
	if i, known := t.byID[id]; known {
		return i, true
	}
	if len(t.list) == math.MaxUint16 {
		return 0, false
	}
	i := uint16(len(t.list))
	t.byID[id] = i
	t.list = append(t.list, id)
	return i, true
}

func (t *idTable) bytes() []byte {
	b := make([]byte, 0, 4*len(t.list))
	for _, id := range t.list {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return b
}

// countingWriter knows its position in the image, and keeps its first error to the end.
type countingWriter struct {
	w     io.Writer
	at    int64
	count *atomic.Int64
	err   error
}

func (c *countingWriter) pos() uint64 { return uint64(c.at) }

// put writes, unless an earlier write failed.
func (c *countingWriter) put(p []byte) {
	if c.err != nil || len(p) == 0 {
		return
	}
	n, err := c.w.Write(p)
	c.count.Add(int64(n))
	c.at += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	c.err = err
}
