// Package blob holds bytes that can be read at any place: a file, a part of one, or pieces of several behind each
// other. The tail of an environment is a part of its SIF and 96 bytes from elsewhere, and is shipped without ever being
// a file of its own.
//
// What it promises: a blob has the size that it tells, and a read outside of it returns io.EOF. What it must not do: know
// digests' owners, registries or formats.
package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"slipway/internal/errs"
)

// Blob is immutable content. It is safe for concurrent reads until Close.
type Blob interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Reader reads b from its beginning.
func Reader(b Blob) *io.SectionReader { return io.NewSectionReader(b, 0, b.Size()) }

// Bytes is a blob in memory.
func Bytes(data []byte) Blob {
	return part{io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))), nil}
}

// Open returns a whole file.
func Open(path string) (Blob, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return file{f, st.Size()}, nil
}

// Part returns length bytes of a file from offset on, and fails when the file is shorter.
func Part(path string, offset, length int64) (Blob, error) {
	b, err := Open(path)
	if err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 || offset > b.Size()-length {
		b.Close()
		return nil, errs.New(
			errs.Internal, "%s has %d bytes, and %d from %d on are wanted", path, b.Size(), length, offset,
		)
	}
	return part{io.NewSectionReader(b, offset, length), b}, nil
}

// Of returns length bytes of r from offset on, with what is to be closed in the end.
func Of(r io.ReaderAt, offset, length int64, closer io.Closer) Blob {
	return part{io.NewSectionReader(r, offset, length), closer}
}

// Join returns blobs behind each other. Closing it closes them all.
func Join(blobs ...Blob) Blob {
	j := joined{blobs: blobs, ends: make([]int64, len(blobs))}
	for i, b := range blobs {
		j.size += b.Size()
		j.ends[i] = j.size
	}
	return j
}

// file lets who serves it use the file itself, and the kernel's ways of copying one.
type file struct {
	*os.File
	size int64
}

func (f file) Size() int64 { return f.size }

type part struct {
	*io.SectionReader
	closer io.Closer
}

func (p part) Close() error {
	if p.closer == nil {
		return nil
	}
	return p.closer.Close()
}

type joined struct {
	blobs []Blob
	ends  []int64 // of each, from the beginning of the whole
	size  int64
}

func (j joined) Size() int64 { return j.size }

// ReadAt reads across the seams.
func (j joined) ReadAt(p []byte, at int64) (n int, err error) {
	if at < 0 {
		return 0, fmt.Errorf("read at %d", at)
	}
	for i := sort.Search(len(j.ends), func(i int) bool { return j.ends[i] > at }); i < len(j.blobs) && n < len(p); i++ {
		start := j.ends[i] - j.blobs[i].Size()
		want := p[n:min(int64(len(p)), int64(n)+j.ends[i]-at)]
		m, err := j.blobs[i].ReadAt(want, at-start)
		n, at = n+m, at+int64(m)
		if m < len(want) {
			return n, errors.Join(fmt.Errorf("piece %d ends at byte %d of %d", i, at-start, j.blobs[i].Size()), err)
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (j joined) Close() error {
	var all error
	for _, b := range j.blobs {
		all = errors.Join(all, b.Close())
	}
	return all
}

// Prefix is what every digest begins with.
const Prefix = "sha256:"

// Digest returns the digest of data.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return Named(sum[:])
}

// Named returns the digest whose hash is sum.
func Named(sum []byte) string { return Prefix + hex.EncodeToString(sum) }

// Hex returns the hexadecimal part of a digest; ok is false for anything but a whole sha256 digest in lower case, so
// it is safe as a file name.
func Hex(digest string) (name string, ok bool) {
	name, found := strings.CutPrefix(digest, Prefix)
	return name, found && len(name) == sha256.Size*2 && strings.Trim(name, "0123456789abcdef") == ""
}

// Copy copies bytes [from, to) of r, and can be canceled.
func Copy(ctx context.Context, w io.Writer, r io.ReaderAt, from, to int64) error {
	buf := make([]byte, 1<<20)
	for from < to {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.ReadAt(buf[:min(int64(len(buf)), to-from)], from)
		if n == 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}
