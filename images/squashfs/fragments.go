package squashfs

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Fragment is a block that holds the rests of several files. A Writer fills it in: it is complete after the next Flush.
type Fragment struct {
	Start uint64 // where it is stored, from the superblock on
	Word  uint32 // the stored length, as of a block
}

// Stored returns how many bytes a block of this word takes.
func Stored(word uint32) int64 { return int64(word & lengthMask) }

// BlockSize returns the block size of the image.
func (w *Writer) BlockSize() int { return int(w.super.BlockSize) }

// PutFragment stores a fragment of its own, with what fill writes into a buffer of a block. Together with Put for whole
// blocks and FinishAt for the end it leaves it to the caller where everything lies in the image.
func (w *Writer) PutFragment(ctx context.Context, fill func(block []byte) (int, error)) (*Fragment, error) {
	if w.finished {
		return nil, errFinished()
	}
	b, err := w.pipe.take(ctx)
	if err != nil {
		return nil, err
	}
	b.in = b.in[:w.super.BlockSize]
	n, err := fill(b.in)
	if err != nil || n == 0 {
		w.pipe.give(b)
		return nil, err
	}
	b.in = b.in[:n]
	f := &Fragment{}
	b.word, b.start = &f.Word, &f.Start
	w.pipe.send(b)
	return f, nil
}

// Unpacker unpacks stored blocks of a Writer's image into buffers that have room for a block. It may be used by several
// goroutines.
type Unpacker struct {
	writer *Writer
	once   sync.Once
	unpack unpacker
	err    error
}

// Unpacker returns one for the blocks that the Writer stores.
func (w *Writer) Unpacker() *Unpacker { return &Unpacker{writer: w} }

// Unpack returns the content of a stored block.
func (u *Unpacker) Unpack(block, stored []byte, word uint32) ([]byte, error) {
	if word&storedRaw != 0 {
		return append(block[:0], stored...), nil
	}
	u.once.Do(func() { u.unpack, u.err = newUnpacker(u.writer.super.Compressor) })
	if u.err != nil {
		return nil, u.err
	}
	return u.unpack(block[:0], stored)
}

// FinishAt writes the tables of a tree behind data that the caller has laid out, and the padding, to out: data up to
// the position at, with these fragments behind those of the base. Nothing can be put behind that.
func (w *Writer) FinishAt(
	ctx context.Context, root *Node, fragments []Fragment, at uint64, out io.Writer,
) (Superblock, error) {
	if err := w.Flush(ctx); err != nil {
		return Superblock{}, err
	}
	w.finished = true
	var table []byte
	if w.cfg.Base != nil {
		table = append(table, w.cfg.Base.fragments...)
	}
	for _, f := range fragments {
		table = binary.LittleEndian.AppendUint64(table, f.Start)
		table = binary.LittleEndian.AppendUint32(table, f.Word)
		table = append(table, 0, 0, 0, 0)
	}
	t, err := newTables(w.cfg, w.super, table)
	if err != nil {
		return Superblock{}, err
	}
	super, err := t.write(ctx, root, &countingWriter{w: out, at: int64(at), count: &w.pipe.written})
	if err != nil {
		return Superblock{}, fmt.Errorf("write the tables: %w", err)
	}
	return super, nil
}
