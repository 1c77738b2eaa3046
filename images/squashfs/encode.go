package squashfs

import (
	"encoding/binary"
	"math"
)

// maxTarget is the longest target of a link that is stored; Linux's own limit is 4,095.
const maxTarget = math.MaxUint16

// head appends what all inodes begin with.
func (t *tables) head(b []byte, n *Node, number uint32, ext bool) ([]byte, error) {
	uid, ok1 := t.ids.index(n.UID)
	gid, ok2 := t.ids.index(n.GID)
	if !ok1 || !ok2 {
		return nil, t.limit(
			n, "owner %d:%d would be one more than the %d that an image can have", n.UID, n.GID, math.MaxUint16,
		)
	}
	typ := uint16(n.Kind)
	if ext {
		typ += extended
	}
	for _, v := range []uint16{typ, n.Mode & 0o7777, uid, gid} {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, n.MTime)
	return binary.LittleEndian.AppendUint32(b, number), nil
}

// file appends the inode of anything but a directory.
func (t *tables) file(b []byte, n *Node, number, links uint32) ([]byte, error) {
	xattr, err := t.xattr(n)
	if err != nil {
		return nil, err
	}
	if n.Kind == File {
		return t.regular(b, n, number, links, xattr)
	}
	if b, err = t.head(b, n, number, xattr != noXattr); err != nil {
		return nil, err
	}
	b = binary.LittleEndian.AppendUint32(b, links)
	switch n.Kind {
	case Symlink:
		if len(n.Target) > maxTarget {
			return nil, t.limit(n, "the link's target has %d bytes, %d are the limit", len(n.Target), maxTarget)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(n.Target)))
		b = append(b, n.Target...)
	case BlockDevice, CharDevice:
		b = binary.LittleEndian.AppendUint32(b, n.Rdev)
	}
	if xattr != noXattr {
		b = binary.LittleEndian.AppendUint32(b, xattr)
	}
	return b, nil
}

func (t *tables) regular(b []byte, n *Node, number, links, xattr uint32) ([]byte, error) {
	d := n.Data
	if d == nil || d.Size == 0 {
		d = &Data{Fragment: NoFragment}
	}
	if uint64(len(d.Blocks)) != d.blocks(t.super.BlockSize) || (d.Fragment != NoFragment && uint64(d.Fragment) >= uint64(len(t.fragments)/16)) {
		return nil, t.limit(
			n, "its data is not of this image: %d bytes in %d blocks, fragment %d", d.Size, len(d.Blocks), d.Fragment,
		)
	}
	ext := xattr != noXattr || links > 1 || d.Start > math.MaxUint32 || d.Size > math.MaxUint32 || d.Sparse > 0
	b, err := t.head(b, n, number, ext)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if ext {
		b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, d.Start), d.Size), d.Sparse)
		b = le.AppendUint32(b, links)
	} else {
		b = le.AppendUint32(b, uint32(d.Start))
	}
	b = le.AppendUint32(le.AppendUint32(b, d.Fragment), d.Offset)
	if ext {
		b = le.AppendUint32(b, xattr)
	} else {
		b = le.AppendUint32(b, uint32(d.Size))
	}
	for _, word := range d.Blocks {
		b = le.AppendUint32(b, word)
	}
	return b, nil
}

// directory writes the inode of the directory at a place in the plan.
func (t *tables) directory(i uint32, l listing) error {
	d := &t.plan.dirs[i]
	xattr, err := t.xattr(d.node)
	if err != nil {
		return err
	}
	parent := t.plan.number(d.parent | isDir)
	if d.parent == i {
		parent = t.plan.inodes() + 1
	}
	if l.at.block > t.maxPosition || t.inodes.place().block > t.maxPosition || l.size+3 > t.maxPosition {
		return t.limit(d.node, "the directory table has more than %d bytes", t.maxPosition)
	}
	le, size, links := binary.LittleEndian, uint32(l.size)+3, d.subdirs+2
	ext := xattr != noXattr || size > math.MaxUint16 || len(l.index) > 0
	b, err := t.head(t.buf[:0], d.node, t.plan.number(i|isDir), ext)
	if err != nil {
		return err
	}
	if ext {
		for _, v := range []uint32{links, size, uint32(l.at.block), parent} {
			b = le.AppendUint32(b, v)
		}
		b = le.AppendUint16(le.AppendUint16(b, l.entries), l.at.offset)
		b = append(le.AppendUint32(b, xattr), l.index...)
	} else {
		b = le.AppendUint32(le.AppendUint32(b, uint32(l.at.block)), links)
		b = le.AppendUint32(le.AppendUint16(le.AppendUint16(b, uint16(size)), l.at.offset), parent)
	}
	t.inodes.write(b)
	t.buf = b
	return nil
}

// xattr returns the number of a node's set of xattrs.
func (t *tables) xattr(n *Node) (uint32, error) {
	i, err := t.xattrs.index(n.Xattrs)
	if err == nil && t.xattrs.pairs.place().block > t.maxPosition {
		err = invalid("the xattrs have more than %d bytes", t.maxPosition)
	}
	if err != nil {
		return 0, t.limit(n, "%w", err)
	}
	return i, nil
}
