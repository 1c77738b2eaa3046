package squashfs

import (
	"encoding/binary"
	"math"
)

const (
	runLength = 256 // entries behind one head
	// A listing that fits a few blocks is looked through as quickly as its index.
	indexFrom = 4 * metaSize
)

// listing is where the names of a directory were written.
type listing struct {
	at      place
	size    uint64
	index   []byte // one entry for each metadata block that a run begins in, behind the first
	entries uint16 // of the index
	last    uint64 // the block of the last one
}

// list writes a directory's listing: runs of entries whose inodes lie in one metadata block.
func (t *tables) list(d *plannedDir) (listing, error) {
	l := listing{at: t.listings.place()}
	l.last = l.at.block
	kids := t.plan.kids[d.kids : d.kids+len(d.node.Children)]
	for from := 0; from < len(kids); {
		to := t.runEnd(kids, from)
		l.add(t.listings.place(), d.node.Children[from].Name)
		if t.place(kids[from]).block > t.maxPosition {
			return l, t.limit(d.node, "the inode table has more than %d bytes", t.maxPosition)
		}
		b := t.run(d.node.Children[from:to], kids[from:to])
		t.listings.write(b)
		l.size += uint64(len(b))
		from = to
	}
	if l.size < indexFrom {
		l.index, l.entries = nil, 0
	}
	return l, nil
}

// add notes a run for the index if it is the first in its block.
func (l *listing) add(at place, name string) {
	if at.block == l.last || l.entries == math.MaxUint16 {
		return
	}
	l.last = at.block
	l.entries++
	for _, v := range []uint64{l.size, at.block, uint64(len(name) - 1)} {
		l.index = binary.LittleEndian.AppendUint32(l.index, uint32(v))
	}
	l.index = append(l.index, name...)
}

// runEnd tells where the run that begins at from ends: a run shares a head, which bounds its length, the block of its
// inodes and the distance of their numbers.
func (t *tables) runEnd(kids []uint32, from int) int {
	block, number := t.place(kids[from]).block, int64(t.plan.number(kids[from]))
	to := from + 1
	for to < len(kids) && to-from < runLength && t.place(kids[to]).block == block {
		if diff := int64(t.plan.number(kids[to])) - number; diff != int64(int16(diff)) {
			break
		}
		to++
	}
	return to
}

func (t *tables) run(entries []Entry, kids []uint32) []byte {
	le, first := binary.LittleEndian, t.plan.number(kids[0])
	b := t.buf[:0]
	for _, v := range []uint32{uint32(len(kids) - 1), uint32(t.place(kids[0]).block), first} {
		b = le.AppendUint32(b, v)
	}
	for i, e := range entries {
		b = le.AppendUint16(b, t.place(kids[i]).offset)
		b = le.AppendUint16(b, uint16(t.plan.number(kids[i])-first))
		b = le.AppendUint16(b, uint16(e.Node.Kind))
		b = le.AppendUint16(b, uint16(len(e.Name)-1))
		b = append(b, e.Name...)
	}
	t.buf = b
	return b
}
