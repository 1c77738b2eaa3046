// Package reserve keeps room on the service's disk for the time when others have filled it: a file that stands for the
// room, and is removed when the room is needed. With it the service starts on a full disk, keeps its records and can
// stop what fills it; the file is made anew when there is room again.
package reserve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/units"
)

const (
	fileName = "reserve"
	most     = 64 << 20
	part     = 16 // of the disk, one part in so many at most
	every    = 5 * time.Second
)

// Reserve is the reserve of one directory's disk.
type Reserve struct {
	dir, path string
	log       *slog.Logger

	mu sync.Mutex // one look at a time
}

// New makes a Reserve of the disk of dir, which must be there. Nothing is kept until Look or Run.
func New(dir string, log *slog.Logger) *Reserve {
	return &Reserve{dir: dir, path: filepath.Join(dir, fileName), log: log}
}

// Run looks after the reserve until ctx ends.
func (r *Reserve) Run(ctx context.Context) {
	for {
		r.Look()
		if !clock.Sleep(ctx, every) {
			return
		}
	}
}

// Look gives the reserve back where the disk is full, and makes it anew where there is room again.
func (r *Reserve) Look() {
	free, size, err := r.room()
	if err != nil {
		r.log.Warn("the room on the service's disk is not known", "error", err)
		return
	}
	switch _, missing := os.Lstat(r.path); {
	case missing == nil && free < size/4:
		r.Release()
	case missing != nil && free >= 3*size:
		if err := r.keep(size); err != nil {
			r.log.Warn("no reserve can be kept on the service's disk", "error", err)
		}
	}
}

// Release returns the reserve back, and reports whether there was one.
func (r *Reserve) Release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := os.Remove(r.path); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.log.Error("the reserve on the service's disk cannot be given back", "error", err)
		}
		return false
	}
	r.log.Error("the service's disk is full: its reserve was given back", "dir", r.dir)
	return true
}

// Check says that the disk is full: its reserve is used, or there is hardly more than that.
func (r *Reserve) Check(context.Context) error {
	free, size, err := r.room()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(r.path); err == nil && free >= size/4 {
		return nil
	}
	if free >= 3*size {
		return nil // it is made anew with the next look
	}
	return r.full(free, size)
}

// Explain adds to an error of a full disk how much is free where, and what to do; other errors stay as they are.
func (r *Reserve) Explain(err error) error {
	if err == nil || !errs.Is(err, errs.NoSpace) && !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	free, size, failed := r.room()
	if failed != nil {
		return err
	}
	full := r.full(free, size)
	full.Err = err
	full.Message += ": " + errs.Brief(err)
	return full
}

func (r *Reserve) full(free, size int64) *errs.Error {
	return errs.New(errs.NoSpace, "disk full: %s free in %s", units.MemoryWords(free), r.dir).
		With("free at least " + units.MemoryWords(3*size) + " on the disk of " + r.dir)
}

// room returns the bytes that are free, and those of a reserve on a disk of this size.
func (r *Reserve) room() (free, size int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(r.dir, &st); err != nil {
		return 0, 0, fmt.Errorf("look at the room in %s: %w", r.dir, err)
	}
	return int64(st.Bavail) * st.Bsize, min(most, int64(st.Blocks)*st.Bsize/part), nil
}

// keep makes the file. It is written where the file system cannot set room aside: a file of holes would keep none.
func (r *Reserve) keep(size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = fill(f, size)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(r.path)
	}
	return err
}

func fill(f *os.File, size int64) error {
	block := make([]byte, 1<<20)
	for size > 0 {
		n, err := f.Write(block[:min(size, int64(len(block)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}
