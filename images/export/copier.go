package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/internal/errs"
)

const (
	pieceSize = 8 << 20 // what one worker reads of a file before another takes over
	readSize  = 1 << 20 // the largest block that squashfs has, so that none is read twice
)

// copier reads contents in several goroutines and writes them to files that one goroutine has made.
type copier struct {
	image  *squashfs.Image
	pieces chan piece
	moved  func(int64)
}

// target is a file that is being written. The last piece gives it its attributes and closes it.
type target struct {
	file *os.File
	path string // in the environment, for errors
	node *squashfs.Node
	from *squashfs.Reader
	left atomic.Int32
}

type piece struct {
	of     *target
	extent squashfs.Extent
}

// copying runs feed with a copier, and returns when feed and all copies have ended.
func copying(
	ctx context.Context, image *squashfs.Image, moved func(int64), feed func(context.Context, *copier) error,
) error {
	g, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	c := &copier{image: image, pieces: make(chan piece, workers), moved: moved}
	for range workers {
		g.Go(func() error { return c.work(ctx) })
	}
	g.Go(func() error {
		defer close(c.pieces)
		return feed(ctx, c)
	})
	return g.Wait()
}

// fill has the content and attributes of n written to file, which it closes then.
func (c *copier) fill(ctx context.Context, file *os.File, path string, n *squashfs.Node) error {
	t := &target{file: file, path: path, node: n}
	t.left.Store(1) // held here until all pieces are on their way
	pieces, err := c.cut(t)
	for _, p := range pieces {
		if err != nil {
			break
		}
		t.left.Add(1)
		select {
		case c.pieces <- p:
		case <-ctx.Done():
			err = errors.Join(ctx.Err(), t.release(false))
		}
	}
	return errors.Join(err, t.release(err == nil))
}

// cut divides what a file holds between its holes.
func (c *copier) cut(t *target) ([]piece, error) {
	if t.node.Size() == 0 {
		return nil, nil
	}
	from, err := c.image.Open(t.node)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", t.path, err)
	}
	t.from = from
	if err := unix.Ftruncate(int(t.file.Fd()), from.Size()); err != nil {
		return nil, written(t.path, err)
	}
	var out []piece
	for _, e := range from.Extents() {
		for at := e.Offset; at < e.Offset+e.Length; {
			end := min(e.Offset+e.Length, (at/pieceSize+1)*pieceSize)
			out = append(out, piece{t, squashfs.Extent{Offset: at, Length: end - at}})
			at = end
		}
	}
	return out, nil
}

// work copies pieces until there are no more. After an error it only lets go of them.
func (c *copier) work(ctx context.Context) error {
	var failed error
	buf := make([]byte, readSize)
	for p := range c.pieces {
		if failed == nil {
			failed = c.copy(ctx, p, buf)
		}
		failed = errors.Join(failed, p.of.release(failed == nil))
	}
	return failed
}

func (c *copier) copy(ctx context.Context, p piece, buf []byte) error {
	for at, end := p.extent.Offset, p.extent.Offset+p.extent.Length; at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buf[:min(int64(len(buf))-at%readSize, end-at)]
		n, err := p.of.from.ReadAt(part, at)
		if n < len(part) {
			return fmt.Errorf("read %s: %w", p.of.path, errors.Join(err, io.ErrUnexpectedEOF))
		}
		if _, err := p.of.file.WriteAt(part, at); err != nil {
			return written(p.of.path, err)
		}
		at += int64(n)
		c.moved(int64(n))
	}
	return nil
}

// release ends one use of the file; the last one finishes it. Attributes come last, as writing drops capabilities.
func (t *target) release(good bool) error {
	if t.left.Add(-1) > 0 {
		return nil
	}
	var err error
	if good {
		err = finish(t.file, t.path, t.node)
	}
	return errors.Join(err, t.file.Close())
}

// written names what could not be written; a full disk is a kind of its own.
func written(path string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return errs.New(errs.NoSpace, "write %s: %w", path, err).With("free space there, or take another place")
	}
	return fmt.Errorf("write %s: %w", path, err)
}
