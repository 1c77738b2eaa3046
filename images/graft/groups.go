package graft

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"slipway/images/squashfs"
)

// ErrMemory says that what an earlier graft has stored is not what it was: graft again without it.
var ErrMemory = errors.New("what an earlier freeze has stored is damaged")

// pack is a file of stored blocks: this graft's, or an earlier one's.
type pack struct {
	name   string
	r      io.ReaderAt
	size   int64  // of an earlier one
	origin uint64 // position that its first byte has in what is said of blocks
	own    bool
	used   int64 // by this graft
}

// stored is a part of a pack.
type stored struct {
	pack  *pack
	sum   uint64 // hash of its bytes; of this graft's pack known when the tail is written
	place uint64 // in the image that is being made
}

// body is the whole blocks of a file.
type body struct {
	stored
	data *squashfs.Data // complete after a flush
}

func (b *body) length() (n int64) {
	for _, word := range b.data.Blocks {
		n += squashfs.Stored(word)
	}
	return n
}

func (b *body) start() uint64 {
	if b.length() == 0 { // nothing but holes
		return b.pack.origin
	}
	return b.data.Start
}

// group is a fragment: the rests of files that follow each other in the order of a walk.
type group struct {
	stored
	at    *squashfs.Fragment // complete after a flush
	used  int                // bytes of its content
	index uint32             // among the fragments of the image that is being made
}

// member is a file on its way into a group.
type member struct {
	note   *note
	offset int
	size   int
	here   bool // its bytes are in the buffer
}

// grouper forms groups of the rests of files, which come in the order of a walk.
//
// Where a group ends follows from the paths and sizes of the files alone, so that equal trees have equal groups; and
// mostly from those next to it, so that a change elsewhere leaves it as it is: it ends behind a file by the hash of the
// file's path, in the mean after two blocks' worth, or where the next one has no room.
type grouper struct {
	writer  *squashfs.Writer
	unpack  *squashfs.Unpacker
	own     *pack
	block   int
	members []member
	used    int
	buffer  []byte // holds the bytes that came with the files
	ended   func(*group)

	last    *group // the one that was unpacked last
	content []byte // of it
}

func newGrouper(w *squashfs.Writer, own *pack) *grouper {
	return &grouper{writer: w, own: own, unpack: w.Unpacker(), block: w.BlockSize(), ended: func(*group) {}}
}

// add puts a file into the group at hand. rest is what lies behind its whole blocks, nil when the note knows a group
// that has it.
func (g *grouper) add(ctx context.Context, path string, n *note, rest []byte) error {
	size := int(n.size % int64(g.block))
	if size == 0 {
		return nil
	}
	m := member{note: n, offset: g.used, size: size, here: rest != nil}
	if m.here {
		if g.buffer == nil {
			g.buffer = make([]byte, g.block)
		}
		copy(g.buffer[m.offset:], rest)
	}
	g.members, g.used = append(g.members, m), g.used+size
	if g.endsBehind(path, size) {
		return g.end(ctx)
	}
	return nil
}

// before ends the group at hand when it has no room for a file.
func (g *grouper) before(ctx context.Context, n *note) error {
	if g.used+int(n.size%int64(g.block)) > g.block {
		return g.end(ctx)
	}
	return nil
}

func (g *grouper) endsBehind(path string, size int) bool {
	return hashOf(path)%uint64(2*g.block) < uint64(size)
}

// end stores the group at hand, unless it is known as it is.
func (g *grouper) end(ctx context.Context) error {
	if len(g.members) == 0 {
		return nil
	}
	made := g.known()
	if made == nil {
		var err error
		if made, err = g.store(ctx); err != nil {
			return err
		}
	}
	g.members, g.used = g.members[:0], 0
	g.ended(made)
	return nil
}

// known returns the group that consists of just these files.
func (g *grouper) known() *group {
	first := g.members[0].note.group
	if first == nil || first.used != g.used {
		return nil
	}
	for _, m := range g.members {
		if m.here || m.note.group != first || int(m.note.offset) != m.offset {
			return nil
		}
	}
	return first
}

func (g *grouper) store(ctx context.Context) (*group, error) {
	for _, m := range g.members {
		if m.here {
			continue
		}
		if err := g.fetch(ctx, m); err != nil {
			return nil, err
		}
	}
	at, err := g.writer.PutFragment(ctx, func(block []byte) (int, error) { return copy(block, g.buffer[:g.used]), nil })
	if err != nil {
		return nil, err
	}
	made := &group{stored: stored{pack: g.own}, at: at, used: g.used}
	for _, m := range g.members {
		m.note.group, m.note.offset = made, uint32(m.offset)
	}
	return made, nil
}

// fetch takes a file's rest out of the group that has it.
func (g *grouper) fetch(ctx context.Context, m member) error {
	if err := g.load(ctx, m.note.group); err != nil {
		return err
	}
	from := int(m.note.offset)
	if from+m.size > len(g.content) {
		return fmt.Errorf("a group of %d bytes is read at %d: %w", len(g.content), from, ErrMemory)
	}
	if g.buffer == nil {
		g.buffer = make([]byte, g.block)
	}
	copy(g.buffer[m.offset:m.offset+m.size], g.content[from:])
	return nil
}

// load unpacks a group.
func (g *grouper) load(ctx context.Context, from *group) error {
	if from == g.last {
		return nil
	}
	if from.pack.own { // it may not be stored yet
		if err := g.writer.Flush(ctx); err != nil {
			return err
		}
	}
	raw := make([]byte, squashfs.Stored(from.at.Word))
	if err := from.read(raw, from.at.Start); err != nil {
		return err
	}
	if !from.pack.own && xxhash.Sum64(raw) != from.sum {
		return fmt.Errorf("%s at %d: %w", from.pack.name, from.at.Start, ErrMemory)
	}
	if g.content == nil {
		g.content = make([]byte, 0, g.block)
	}
	content, err := g.unpack.Unpack(g.content[:0], raw, from.at.Word)
	if err != nil {
		return fmt.Errorf("%s at %d: %w: %w", from.pack.name, from.at.Start, ErrMemory, err)
	}
	g.last, g.content = from, content
	return nil
}

// read reads stored bytes.
func (s stored) read(b []byte, start uint64) error {
	n, err := s.pack.r.ReadAt(b, int64(start-s.pack.origin))
	if n == len(b) {
		return nil
	}
	if s.pack.own {
		return fmt.Errorf("read what was just stored: %w", err)
	}
	return fmt.Errorf("%s ends: %w: %w", s.pack.name, ErrMemory, err)
}
