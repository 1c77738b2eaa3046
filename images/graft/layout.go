package graft

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"slipway/images/squashfs"
)

// Extent is a part of a pack. Behind each other a result's extents are the tail.
type Extent struct {
	Pack           string
	Offset, Length int64
}

// placed is a file of the tree that has content.
type placed struct {
	path  string
	inode uint64
	links uint64 // names that it has
	node  *squashfs.Node
	note  *note
}

// unit is what lies in one piece in the tail: the blocks of a file, or a group.
type unit struct {
	*stored
	start  *uint64      // in the pack's positions
	length func() int64 // known after a flush
	move   bool         // it is copied into this graft's own pack
}

// layout says where everything lies in the tail. It follows from the tree alone: units stand in the order of a walk.
type layout struct {
	g      *grafter
	units  []unit
	groups []*group
	at     uint64 // behind the last unit, from the superblock on
}

// lay gives every file its place. It stores the groups that do not consist of the same files as before.
func (g *grafter) lay(ctx context.Context, files []placed) (*layout, error) {
	l := &layout{g: g, at: uint64(g.cfg.Base.Cut())}
	if err := l.group(ctx, files); err != nil {
		return nil, err
	}
	if err := g.writer.Flush(ctx); err != nil {
		return nil, err
	}
	l.place(files)
	g.choosePacks(l)
	return l, nil
}

// group lists the units. Lengths are known after the next flush.
func (l *layout) group(ctx context.Context, files []placed) error {
	groups := newGrouper(l.g.writer, l.g.own)
	groups.ended = func(made *group) {
		made.index = l.g.cfg.Base.Super.Fragments + uint32(len(l.groups))
		l.groups = append(l.groups, made)
		l.units = append(l.units, unit{
			stored: &made.stored, start: &made.at.Start, length: func() int64 { return squashfs.Stored(made.at.Word) },
		})
	}
	for i := range files {
		f := &files[i]
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := groups.before(ctx, f.note); err != nil {
			return err
		}
		if b := f.note.body; b != nil {
			l.units = append(l.units, unit{stored: &b.stored, start: &b.data.Start, length: b.length})
		}
		if err := groups.add(ctx, f.path, f.note, nil); err != nil {
			return err
		}
	}
	return groups.end(ctx)
}

// place gives units and files their positions.
func (l *layout) place(files []placed) {
	for i := range l.units {
		u := &l.units[i]
		u.place = l.at
		l.at += uint64(u.length())
		u.pack.used += u.length()
	}
	for i := range files {
		files[i].node.Data = dataOf(files[i].note)
	}
}

func dataOf(n *note) *squashfs.Data {
	d := &squashfs.Data{Size: uint64(n.size), Fragment: squashfs.NoFragment}
	if n.body != nil {
		d.Blocks, d.Sparse = n.body.data.Blocks, n.body.data.Sparse
		if n.body.length() > 0 {
			d.Start = n.body.place
		}
	}
	if n.group != nil {
		d.Fragment, d.Offset = n.group.index, n.offset
	}
	return d
}

// fragments returns the entries of the table.
func (l *layout) fragments() []squashfs.Fragment {
	list := make([]squashfs.Fragment, len(l.groups))
	for i, made := range l.groups {
		list[i] = squashfs.Fragment{Start: made.place, Word: made.at.Word}
	}
	return list
}

// The bounds of what is kept of earlier packs.
const (
	leastUsed = 4  // a pack of which less than one part of so many is used is not worth its place on the disk
	maxPacks  = 64 // that one tail lies in; of more, all but the most used are copied
	keepPacks = 16
)

// choosePacks marks what is to be copied out of earlier packs, so that they need not stay for little.
func (g *grafter) choosePacks(l *layout) {
	var used []*pack
	leave := map[*pack]bool{}
	for _, p := range g.packs {
		if p.used == 0 {
			continue
		}
		used = append(used, p)
		leave[p] = p.used < p.size/leastUsed
	}
	if len(used) > maxPacks {
		slices.SortStableFunc(used, func(a, b *pack) int { return int(min(max(b.used-a.used, -1), 1)) })
		for _, p := range used[keepPacks:] {
			leave[p] = true
		}
	}
	for i := range l.units {
		l.units[i].move = leave[l.units[i].pack]
	}
}

// piece is a part of a unit, read.
type piece struct {
	unit *unit
	data []byte
	last bool // of the unit
	err  error
}

const (
	pieceSize  = 1 << 20
	pieceCount = 4
)

// write writes the units, and compares what comes from earlier packs with what was stored there.
func (l *layout) write(ctx context.Context) (extents []Extent, err error) {
	ctx, cancel := context.WithCancel(ctx)
	pieces := make(chan piece, pieceCount)
	free := make(chan []byte, pieceCount+2)
	for range cap(free) {
		free <- make([]byte, pieceSize)
	}
	var reader sync.WaitGroup
	reader.Go(func() { l.read(ctx, pieces, free) })
	defer reader.Wait()
	defer cancel()
	moved := int64(-1)
	for p := range pieces {
		if p.err != nil {
			return nil, p.err
		}
		if err := l.g.emit(p.data); err != nil {
			return nil, err
		}
		if p.unit.move {
			if moved < 0 {
				moved = l.g.out.n
			}
			if _, err := l.g.out.Write(p.data); err != nil {
				return nil, fmt.Errorf("store what is kept of earlier freezes: %w", err)
			}
		}
		free <- p.data[:pieceSize]
		if !p.last {
			continue
		}
		if p.unit.move {
			p.unit.pack, *p.unit.start, moved = l.g.own, l.g.own.origin+uint64(moved), -1
		}
		extents = extend(extents, Extent{p.unit.pack.name, int64(*p.unit.start - p.unit.pack.origin), p.unit.length()})
	}
	return extents, context.Cause(ctx)
}

// extend adds an extent, to the last one where it goes on there.
func extend(list []Extent, e Extent) []Extent {
	if n := len(list); n > 0 && list[n-1].Pack == e.Pack && list[n-1].Offset+list[n-1].Length == e.Offset {
		list[n-1].Length += e.Length
		return list
	}
	return append(list, e)
}

// emit gives bytes of the tail to whoever wants it.
func (g *grafter) emit(b []byte) error {
	n, err := g.cfg.Out.Write(b)
	g.result.TailSize += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write the tail: %w", err)
	}
	return nil
}

// read reads the units in their order.
func (l *layout) read(ctx context.Context, pieces chan<- piece, free <-chan []byte) {
	defer close(pieces)
	for i := range l.units {
		if !l.units[i].read(ctx, pieces, free) {
			return
		}
	}
}

// read reads a unit, and says whether the next one is wanted.
func (u *unit) read(ctx context.Context, pieces chan<- piece, free <-chan []byte) bool {
	from, own, start, length, hash := *u.stored, u.pack.own, *u.start, u.length(), xxhash.New()
	for at := int64(0); at < length; {
		p := piece{unit: u}
		select {
		case buf := <-free:
			p.data = buf[:min(pieceSize, length-at)]
		case <-ctx.Done():
			return false
		}
		p.err = from.read(p.data, start+uint64(at))
		hash.Write(p.data)
		at += int64(len(p.data))
		if p.last = at == length; p.last && p.err == nil && !own && hash.Sum64() != from.sum {
			p.err = fmt.Errorf("%s at %d: %w", from.pack.name, start, ErrMemory)
		}
		if p.last {
			u.sum = hash.Sum64()
		}
		select {
		case pieces <- p:
		case <-ctx.Done():
			return false
		}
		if p.err != nil {
			return false
		}
	}
	return true
}
