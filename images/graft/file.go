package graft

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
)

// raw is an open file. It is less than an os.File, which is made for waiting: there are many, and they are open for a
// moment.
type raw struct {
	fd   int
	path string // for errors
}

func openRaw(dir *os.File, name, path string) (raw, error) {
	fd, err := tree.OpenRaw(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	return raw{fd, path}, err
}

func (r raw) stat() (st unix.Stat_t, err error) {
	if err := unix.Fstat(r.fd, &st); err != nil {
		return st, r.failed("fstat", err)
	}
	return st, nil
}

// ReadAt reads as much as there is, up to the length of b.
func (r raw) ReadAt(b []byte, at int64) (int, error) {
	for done := 0; ; {
		n, err := unix.Pread(r.fd, b[done:], at+int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return done, r.failed("read", err)
		case n == 0 && done < len(b):
			return done, io.EOF
		}
		if done += n; done == len(b) {
			return done, nil
		}
	}
}

func (r raw) close() error { return unix.Close(r.fd) }

func (r raw) failed(what string, err error) error {
	return &os.PathError{Op: what, Path: "/" + r.path, Err: err}
}

// maxExtents bounds what the holes of one file cost in memory. Behind that many extents all counts as data: the writer
// sees zeros for itself.
const maxExtents = 1 << 16

// extents lists the parts of a file that hold data, so that holes cost nothing.
func extents(f raw, size int64) ([]squashfs.Extent, error) {
	list := []squashfs.Extent{} // a file that is one hole has none, which is not the same as nil
	for at := int64(0); at < size; {
		start, err := unix.Seek(f.fd, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // only a hole is left
		}
		if err != nil {
			return nil, f.failed("seek data", err)
		}
		end, err := unix.Seek(f.fd, start, unix.SEEK_HOLE)
		if err != nil {
			return nil, f.failed("seek hole", err)
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
