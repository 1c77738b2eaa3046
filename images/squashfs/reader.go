package squashfs

import (
	"io"

	"slipway/internal/errs"
)

// Extent is a part of a file that holds data; what lies between extents is a hole.
type Extent struct {
	Offset, Length int64
}

// Reader reads the content of one file. ReadAt may be called by several goroutines at once.
type Reader struct{}

// Open gives a reader of a file's content.
func (i *Image) Open(n *Node) (*Reader, error) {
	return nil, errs.New(errs.Internal, "open in squashfs: not built yet")
}

// Size gives the length of the content.
func (r *Reader) Size() int64 { return 0 }

// Extents gives the parts that hold data, in order.
func (r *Reader) Extents() []Extent { return nil }

// Read reads on from where the last Read or WriteTo ended.
func (r *Reader) Read(p []byte) (int, error) { return 0, io.EOF }

// ReadAt reads from a position.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) { return 0, io.EOF }

// WriteTo writes the rest of the content, holes as zeros.
func (r *Reader) WriteTo(w io.Writer) (int64, error) { return 0, nil }
