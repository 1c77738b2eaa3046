package sif

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// copyPiece is how much is copied between two looks at the context: some tens of milliseconds' worth.
const copyPiece = 32 << 20

// bufferSize is that of the last resort, reading and writing.
const bufferSize = 1 << 20

// CopyBase makes the first length bytes of base those of dst from dstOff on, and gives the number of those that both
// files now share on the disk. progress gets the bytes done since its last call, shared or not; it may be nil. When it
// fails, dst holds a part of them.
//
// It clones where the file system can, which takes milliseconds whatever the length; else it lets the kernel copy; else
// it reads and writes.
func CopyBase(
	ctx context.Context, dst *os.File, dstOff int64, base *os.File, length int64, progress func(int64),
) (shared int64, err error) {
	c := &copier{dst: dst, base: base, dstOff: dstOff, length: length, progress: progress}
	for _, step := range []func(context.Context) error{c.clone, c.inKernel, c.readWrite} {
		if err := step(ctx); err != nil {
			return c.shared, fmt.Errorf("copy the base, %d of %d bytes done: %w", c.done, length, noSpace(err))
		}
		if c.done == c.length {
			break
		}
	}
	return c.shared, nil
}

type copier struct {
	dst, base      *os.File
	dstOff, length int64
	done, shared   int64
	progress       func(int64)
}

func (c *copier) add(n int64) {
	c.done += n
	if c.progress != nil {
		c.progress(n)
	}
}

// clone shares the whole blocks, if the file system can.
func (c *copier) clone(ctx context.Context) error {
	n := c.length / Block * Block
	if n == 0 || c.dstOff%Block != 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := retry(func() error {
		return unix.IoctlFileCloneRange(int(c.dst.Fd()), &unix.FileCloneRange{
			Src_fd: int64(c.base.Fd()), Src_offset: 0, Src_length: uint64(n), Dest_offset: uint64(c.dstOff),
		})
	})
	if cannot(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c.shared = n
	c.add(n)
	return nil
}

// inKernel copies without bringing the bytes into this process, as far as the kernel can.
func (c *copier) inKernel(ctx context.Context) error {
	for c.done < c.length {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		from, to, n := c.done, c.dstOff+c.done, 0
		err := retry(func() (err error) {
			n, err = unix.CopyFileRange(
				int(c.base.Fd()), &from, int(c.dst.Fd()), &to, int(min(copyPiece, c.length-c.done)), 0,
			)
			return err
		})
		// some file systems say 0 where they cannot; readWrite tells the end apart
		if cannot(err) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		c.add(int64(n))
	}
	return nil
}

func (c *copier) readWrite(ctx context.Context) error {
	buf := make([]byte, bufferSize)
	for c.done < c.length {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := c.base.ReadAt(buf[:min(bufferSize, c.length-c.done)], c.done)
		if n == 0 && err == io.EOF {
			return fmt.Errorf("the base ends: %w", io.ErrUnexpectedEOF)
		}
		if n == 0 {
			return err
		}
		if _, err := c.dst.WriteAt(buf[:n], c.dstOff+c.done); err != nil {
			return err
		}
		c.add(int64(n))
	}
	return nil
}

func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// cannot tells that the way is not there, between these files or at all, rather than that it failed.
func cannot(err error) bool {
	for _, e := range []error{unix.EXDEV, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL, unix.ENOTTY, unix.EPERM, unix.ETXTBSY} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// noSpace gives a full disk its kind.
func noSpace(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return errs.New(errs.NoSpace, "%w", err).
			With("make room on the disk of the library, or raise the service's quota there")
	}
	return err
}
