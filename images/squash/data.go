package squash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

const copyPiece = 16 << 20

// dataCopier copies file contents in the cheapest way that the two file systems have, and remembers which they lack.
type dataCopier struct {
	noClone, noRange bool
	buf              []byte
}

// copy makes to's content equal to from's, holes included. Blocks are shared where the file system can.
func (d *dataCopier) copy(ctx context.Context, to, from *os.File, moved func(int64)) error {
	st, err := tree.StatFile(from)
	if err != nil {
		return err
	}
	if st.Size == 0 {
		return nil
	}
	if !d.noClone {
		err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
		if err == nil {
			moved(st.Size)
			return nil
		}
		if !unsupported(err) {
			return fmt.Errorf("share blocks: %w", err)
		}
		d.noClone = true
	}
	if err := unix.Ftruncate(int(to.Fd()), st.Size); err != nil {
		return fmt.Errorf("set size: %w", err)
	}
	return d.segments(ctx, to, from, st.Size, moved)
}

// segments copies what lies between the holes.
func (d *dataCopier) segments(ctx context.Context, to, from *os.File, size int64, moved func(int64)) error {
	for at := int64(0); at < size; {
		start, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // only a hole is left
		}
		if err != nil {
			return fmt.Errorf("seek data: %w", err)
		}
		end, err := unix.Seek(int(from.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return fmt.Errorf("seek hole: %w", err)
		}
		for at = start; at < min(end, size); {
			n, err := d.piece(ctx, to, from, at, min(end, size)-at)
			if err != nil {
				return err
			}
			at += n
			moved(n)
		}
	}
	return nil
}

func (d *dataCopier) piece(ctx context.Context, to, from *os.File, at, left int64) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if d.noRange {
		return d.readWrite(to, from, at, left)
	}
	in, out := at, at
	n, err := unix.CopyFileRange(int(from.Fd()), &in, int(to.Fd()), &out, int(min(left, copyPiece)), 0)
	switch {
	case err != nil && unsupported(err):
		d.noRange = true
		return d.readWrite(to, from, at, left)
	case err != nil:
		return 0, fmt.Errorf("copy data: %w", err)
	case n == 0:
		return 0, errShrunk(from)
	}
	return int64(n), nil
}

func (d *dataCopier) readWrite(to, from *os.File, at, left int64) (int64, error) {
	if d.buf == nil {
		d.buf = make([]byte, 1<<20)
	}
	n, err := from.ReadAt(d.buf[:min(left, int64(len(d.buf)))], at)
	if n == 0 && errors.Is(err, io.EOF) {
		return 0, errShrunk(from)
	}
	if n == 0 {
		return 0, err
	}
	_, err = to.WriteAt(d.buf[:n], at)
	return int64(n), err
}

func errShrunk(f *os.File) error {
	return errs.New(errs.Conflict, "the file shrank while it was read").With("freeze again when nothing writes to it")
}

// unsupported says whether a way of copying does not exist between two file systems, as opposed to having failed.
func unsupported(err error) bool {
	for _, e := range []error{unix.EOPNOTSUPP, unix.EXDEV, unix.EINVAL, unix.ENOSYS, unix.ENOTTY, unix.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
