// Package ctxio reads under a context where an interface of the standard library has no room for one: io.Reader is what
// io.Copy, archive/tar and net/http take.
//
// What it promises: a reader of this package looks at the context that it was made with, at each read. What it must not
// do: outlast the call that made it, or hold anything that is to be closed.
package ctxio

import (
	"context"
	"io"
)

// Reader returns a reader each read of which is a call of read with ctx.
func Reader(ctx context.Context, read func(ctx context.Context, p []byte) (int, error)) io.Reader {
	return readerFunc(func(p []byte) (int, error) { return read(ctx, p) })
}

// Until returns a reader of r that fails with ctx's cause once ctx has ended. It hides those ways of copying that would
// pass by the look at ctx.
func Until(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(p)
	})
}

type readerFunc func(p []byte) (int, error)

// Read calls the function.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
