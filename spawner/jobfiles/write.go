package jobfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/units"
)

var (
	errTooLarge = fmt.Errorf("the file is larger than %s", units.MemoryWords(control.FileLimit))
	errFull     = errs.New(errs.NoSpace, "the service's disk is full")
)

// Full reports whether an error is that of the service's own disk, which does not stay full.
func Full(err error) bool {
	return errors.Is(err, errFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Permanent reports whether an error will be the same at every repetition.
func Permanent(err error) bool {
	switch errs.KindOf(err) {
	case errs.Invalid, errs.NotFound, errs.Conflict, errs.Forbidden, errs.NoSpace:
		return err != nil
	default:
		return errors.Is(err, errTooLarge) || errors.Is(err, syscall.ENOSPC)
	}
}

// partial begins the names of files that are being written.
const partial = ".new-"

// writeFile makes a file of what r returns; it appears whole or not at all.
func writeFile(path string, r io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(path), partial+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	n, err := io.Copy(f, io.LimitReader(r, control.FileLimit+1))
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return errs.New(errs.NoSpace, "the service's disk is full: %w", err)
	case err != nil:
		return err
	case n > control.FileLimit:
		return errTooLarge
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// linkFile gives a file one more name. If it has as many as the file system allows, it is copied, and the copy takes
// its place for later calls.
func linkFile(from, to string) error {
	switch err := os.Link(from, to); {
	case errors.Is(err, fs.ErrNotExist):
		return errs.New(errs.NotFound, "it was removed just now").With("put it again, then submit again")
	case !errors.Is(err, syscall.EMLINK):
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeFile(from, f); err != nil {
		return err
	}
	return os.Link(from, to)
}

// What stays free of a disk: the service's records need it as well.
const (
	leastFree = 2 << 30
	freePart  = 50 // or one part in so many of the disk, if that is less
)

// roomIn returns how many bytes of output a directory's disk may take.
func roomIn(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("look at the room in %s: %w", dir, err)
	}
	return int64(st.Bavail)*st.Bsize - min(leastFree, int64(st.Blocks)*st.Bsize/freePart), nil
}

type readerFunc func(p []byte) (int, error)

// Read reads.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// untilDone returns a reader of r that fails once ctx has ended.
func untilDone(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}
