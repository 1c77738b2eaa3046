package graft

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
)

// maxExtents bounds what the holes of one file cost in memory. Behind that many extents all counts as data: the writer
// sees zeros for itself.
const maxExtents = 1 << 16

// extents lists the parts of a file that hold data, so that holes cost nothing.
func extents(f *os.File, size int64) ([]squashfs.Extent, error) {
	list := []squashfs.Extent{} // a file that is one hole has none, which is not the same as nil
	for at := int64(0); at < size; {
		start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // only a hole is left
		}
		if err != nil {
			return nil, &os.PathError{Op: "seek data", Path: f.Name(), Err: err}
		}
		end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return nil, &os.PathError{Op: "seek hole", Path: f.Name(), Err: err}
		}
		if start >= size {
			break
		}
		if end = min(end, size); len(list) == maxExtents {
			end = size
		}
		list = append(list, squashfs.Extent{Offset: start, Length: end - start})
		at = end
	}
	return list, nil
}

// memory reads what is in memory.
type memory []byte

func (m memory) ReadAt(b []byte, at int64) (int, error) {
	if at >= int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(b, m[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// patient never fails: where the file cannot be read, or ended early, it gives zeros and keeps the first error. So the
// writer sees no errors but its own, and what became of a bad file costs next to nothing in the tail.
type patient struct {
	from io.ReaderAt
	err  error
}

func (p *patient) ReadAt(b []byte, at int64) (int, error) {
	n := 0
	if p.err == nil {
		var err error
		n, err = p.from.ReadAt(b, at)
		if n < len(b) {
			if p.err = err; errors.Is(err, io.EOF) {
				p.err = errMoved
			}
		}
	}
	clear(b[n:])
	return len(b), nil
}
