package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// chunk is how much is compared at once.
const chunk = 128 << 10

// content is what a regular file holds. One goroutine reads it.
type content interface {
	io.ReaderAt
	io.Closer
	data(off int64) int64 // where data begins at or behind off; beyond the end: nowhere
	same() error          // whether it is what it was when it was opened
}

// job is a content to compare.
type job struct {
	step        int64
	path        string
	size        int64
	there, here content
}

// contents has two files of one size compared.
func (c *comparer) contents(ctx context.Context, p place, there, here folder, inThere, inHere entry) {
	a, err := there.open(p.name, inThere)
	if err != nil {
		c.differ(p.path, "the session's cannot be read: %v", err)
		return
	}
	b, err := here.open(p.name, inHere)
	if err != nil {
		_ = a.Close() // it was only read
		c.differ(p.path, "the environment's cannot be read: %v", err)
		return
	}
	select {
	case c.jobs <- job{step: c.step, path: p.path, size: int64(inThere.size), there: a, here: b}:
	case <-ctx.Done():
		_, _ = a.Close(), b.Close()
	}
}

// work compares contents until the walk has ended, and closes them in any case.
func (c *comparer) work(ctx context.Context) {
	a, b := make([]byte, chunk), make([]byte, chunk)
	for j := range c.jobs {
		if ctx.Err() == nil {
			if err := c.compare(ctx, j, a, b); err != nil && ctx.Err() == nil {
				c.found.add(j.step, j.path, err.Error())
			}
		}
		_, _ = j.there.Close(), j.here.Close() // they were only read
	}
}

func (c *comparer) compare(ctx context.Context, j job, a, b []byte) error {
	for off := int64(0); ; {
		at := min(j.there.data(off), j.here.data(off))
		c.bytes.Add(min(at, j.size) - off)
		if off = at; off >= j.size {
			return j.there.same()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(chunk-off%chunk, j.size-off) // so that a squashfs reads whole blocks
		if err := read(j.there, a[:n], off); err != nil {
			return fmt.Errorf("the session's cannot be read at %d: %w", off, err)
		}
		if err := read(j.here, b[:n], off); err != nil {
			return fmt.Errorf("the environment's cannot be read at %d: %w", off, err)
		}
		if !bytes.Equal(a[:n], b[:n]) {
			return fmt.Errorf("its content differs from byte %d on", off+firstDifference(a[:n], b[:n]))
		}
		off += n
		c.bytes.Add(n)
	}
}

// read fills p; a file that has become shorter does not.
func read(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return errMoved
	default:
		return err
	}
}

func firstDifference(a, b []byte) int64 {
	for i := range a {
		if a[i] != b[i] {
			return int64(i)
		}
	}
	return int64(len(a))
}
