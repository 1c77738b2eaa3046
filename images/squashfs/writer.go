package squashfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"slipway/internal/errs"
)

// ErrShort says that a file ended before the size that was given for it.
var ErrShort = errors.New("the file is shorter than it was")

// Level says how hard a Writer compresses contents. Tables are always compressed, at Fast.
type Level int

// The levels.
const (
	Fast   Level = iota // zstd's or zlib's fastest
	Better              // half as fast and some 5 % smaller
	Store               // contents are stored as they are
)

// freshBlockSize is the block size of an image without a base, mksquashfs's own.
const freshBlockSize = 128 << 10

// WriterConfig says what a Writer appends to.
type WriterConfig struct {
	Base    *Image    // nil: a new image from byte 96 on, with blocks of 128 KiB and zstd
	Out     io.Writer // receives the tail, from the cut on, in order. One goroutine writes, not the caller's
	Workers int       // goroutines that compress; 0: one for each core
	Level   Level
	ModTime uint32 // of a new image; one with a base keeps the base's
}

// Writer appends to an image: contents first, tables at the end. One goroutine uses it.
type Writer struct {
	cfg   WriterConfig
	super Superblock // of the base, or what a new image begins with
	pipe  *pipeline

	fragment  *block // is being filled; nil: none
	used      int    // bytes of it
	fragments uint32 // how many there are, with the base's and the one that is being filled
	finished  bool   // or closed
}

// NewWriter starts the workers. Close ends them.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	if cfg.Workers <= 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	w := &Writer{cfg: cfg, super: Superblock{
		ModTime: cfg.ModTime, BlockSize: freshBlockSize, Compressor: compressorZstd, InodeTable: SuperblockSize,
	}}
	var fragments []byte
	if cfg.Base != nil {
		w.super, fragments = cfg.Base.Super, cfg.Base.fragments
		w.fragments = w.super.Fragments
	}
	var err error
	w.pipe, err = newPipeline(cfg, w.super, slices.Clone(fragments))
	return w, err
}

// Put stores the content of one file: size bytes of r, of which only the extents are read when some are given; nil
// means all of it. It reads here and compresses behind; the Data is complete after the next Flush. A file that ends
// early is ErrShort, after which the Writer goes on.
func (w *Writer) Put(ctx context.Context, r io.ReaderAt, size int64, extents []Extent) (*Data, error) {
	if w.finished {
		return nil, errFinished()
	}
	if extents == nil {
		extents = []Extent{{Length: size}}
	}
	if err := checkExtents(extents, size); err != nil {
		return nil, err
	}
	in := &input{r: r, extents: extents}
	d := &Data{Size: uint64(size), Fragment: NoFragment}
	step := int64(w.super.BlockSize)
	d.Blocks = make([]uint32, 0, (size+step-1)/step)
	for at := int64(0); at+step <= size; at += step {
		if err := w.putBlock(ctx, d, in, at); err != nil {
			return nil, err
		}
	}
	if rest := size % step; rest > 0 {
		if err := w.putRest(ctx, d, in, size-rest, int(rest)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func checkExtents(extents []Extent, size int64) error {
	var end int64
	for _, e := range extents {
		if e.Offset < end || e.Length < 0 || e.Length > size-e.Offset {
			return errs.New(errs.Internal, "a file of %d bytes has an extent of %d at %d", size, e.Length, e.Offset)
		}
		end = e.Offset + e.Length
	}
	return nil
}

// putBlock reads a whole block and sends it on its way. The pipeline fills in its word; 0 stays where there is a hole.
func (w *Writer) putBlock(ctx context.Context, d *Data, in *input, at int64) error {
	d.Blocks = append(d.Blocks, 0)
	step := int64(w.super.BlockSize)
	if !in.any(at, at+step) {
		d.Sparse += uint64(step)
		return ctx.Err()
	}
	b, err := w.pipe.take(ctx)
	if err != nil {
		return err
	}
	b.in = b.in[:step]
	data, err := in.read(b.in, at)
	if err != nil || !data {
		w.pipe.give(b)
		d.Sparse += uint64(step)
		return err
	}
	b.word, b.start = &d.Blocks[len(d.Blocks)-1], &d.Start
	w.pipe.send(b)
	return nil
}

// putRest reads what is left behind the whole blocks into the fragment that is being filled. A hole takes a block word,
// as it would cost bytes there.
func (w *Writer) putRest(ctx context.Context, d *Data, in *input, at int64, rest int) error {
	data := in.any(at, at+int64(rest))
	if data {
		if err := w.room(ctx, rest); err != nil {
			return err
		}
		var err error
		if data, err = in.read(w.fragment.in[w.used:w.used+rest], at); err != nil {
			return err
		}
	}
	if !data {
		d.Blocks = append(d.Blocks, 0)
		d.Sparse += uint64(rest)
		return nil
	}
	d.Fragment, d.Offset = w.fragments-1, uint32(w.used)
	w.used += rest
	return nil
}

// room makes sure that the fragment has n bytes left.
func (w *Writer) room(ctx context.Context, n int) error {
	if w.fragment != nil && w.used+n <= int(w.super.BlockSize) {
		return nil
	}
	w.sendFragment()
	b, err := w.pipe.take(ctx)
	if err != nil {
		return err
	}
	b.in = b.in[:w.super.BlockSize]
	w.fragment, w.used = b, 0
	w.fragments++
	return nil
}

func (w *Writer) sendFragment() {
	if w.fragment == nil {
		return
	}
	w.fragment.in = w.fragment.in[:w.used]
	w.pipe.send(w.fragment)
	w.fragment = nil
}

// Flush returns when everything that was put has been given to Out, but for the last, unfilled fragment block.
func (w *Writer) Flush(ctx context.Context) error {
	if w.finished {
		return errFinished()
	}
	return w.pipe.flush(ctx)
}

func errFinished() error { return errs.New(errs.Internal, "a squashfs that is finished takes no more") }

// Written returns the bytes that Out has been given so far.
func (w *Writer) Written() int64 { return w.pipe.written.Load() }

// Finish writes the last fragment block, the tables of the tree and the padding, and gives the superblock that makes it
// all an image. Nothing can be put behind that.
func (w *Writer) Finish(ctx context.Context, root *Node) (Superblock, error) {
	if w.finished {
		return Superblock{}, errFinished()
	}
	if w.used == 0 && w.fragment != nil { // the one file that it was begun for turned out a hole, or short
		w.fragments--
		w.pipe.give(w.fragment)
		w.fragment = nil
	}
	w.sendFragment()
	if err := w.Flush(ctx); err != nil {
		return Superblock{}, err
	}
	w.finished = true
	t, err := newTables(w.cfg, w.super, w.pipe.fragments)
	if err != nil {
		return Superblock{}, err
	}
	super, err := t.write(ctx, root, &countingWriter{w: w.cfg.Out, at: int64(w.pipe.at), count: &w.pipe.written})
	if err != nil {
		return Superblock{}, fmt.Errorf("write the tables: %w", err)
	}
	return super, nil
}

// Close ends the workers. It may be called at any time, and again.
func (w *Writer) Close() {
	w.finished = true
	w.pipe.close()
}
