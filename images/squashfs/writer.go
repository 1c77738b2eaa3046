package squashfs

import (
	"context"
	"errors"
	"io"

	"slipway/internal/errs"
)

// ErrShort says that a file ended before the size that was given for it.
var ErrShort = errors.New("the file is shorter than it was")

// Level says how hard a Writer compresses contents. Tables are always compressed.
type Level int

// The levels.
const (
	Fast   Level = iota // zstd's or zlib's fastest
	Better              // slower and smaller
	Store               // contents are stored as they are
)

// WriterConfig says what a Writer appends to.
type WriterConfig struct {
	Base    *Image    // nil: a new image from byte 96 on, with blocks of 128 KiB and zstd
	Out     io.Writer // receives the tail, from the cut on, in order
	Workers int       // goroutines that compress; 0: one for each core
	Level   Level
	ModTime uint32 // of a new image; one with a base keeps the base's
}

// Writer appends to an image: contents first, tables at the end. One goroutine uses it.
type Writer struct{}

// NewWriter starts the workers. Close ends them.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	return nil, errs.New(errs.Internal, "write squashfs: not built yet")
}

// Put stores the content of one file: size bytes of r, of which only the extents are read when some are given; nil means
// all of it. It reads here and compresses behind; the Data is complete after the next Flush. A file that ends early is
// ErrShort, after which the Writer goes on.
func (w *Writer) Put(ctx context.Context, r io.ReaderAt, size int64, extents []Extent) (*Data, error) {
	return nil, errs.New(errs.Internal, "write squashfs: not built yet")
}

// Flush returns when everything that was put has been given to Out, but for the last, unfilled fragment block.
func (w *Writer) Flush(ctx context.Context) error { return nil }

// Written gives the bytes that Out has been given so far.
func (w *Writer) Written() int64 { return 0 }

// Finish writes the last fragment block, the tables of the tree and the padding, and gives the superblock that makes it
// all an image.
func (w *Writer) Finish(ctx context.Context, root *Node) (Superblock, error) {
	return Superblock{}, errs.New(errs.Internal, "write squashfs: not built yet")
}

// Close ends the workers. It may be called at any time, and again.
func (w *Writer) Close() {}
