// Package blobstore keeps blobs under their digests: in a directory, or in a bucket of an S3-compatible store. It also
// lays SIFs out in a directory that CVMFS or XRootD publishes.
//
// It promises that a blob is there whole or not at all, and that what is put under a digest has that digest. It must
// not know what a blob means, who owns it, when it may go, or which other stores have a copy: that is replication's.
package blobstore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"time"

	"slipway/images/blob"
	"slipway/internal/ctxio"
	"slipway/internal/errs"
)

// Store keeps blobs. A blob that is not there is of kind errs.NotFound. It is safe for concurrent use.
type Store interface {
	// Put stores a blob. What is there already is not written again.
	Put(ctx context.Context, digest string, b blob.Blob) error
	// Get reads length bytes from offset on; to the end when length is negative.
	Get(ctx context.Context, digest string, offset, length int64) (io.ReadCloser, error)
	// Stat says whether a blob is there.
	Stat(ctx context.Context, digest string) (Info, error)
	// List returns what is there, in any order. It ends with the first error.
	List(ctx context.Context) iter.Seq2[Info, error]
	// Delete removes a blob. What is gone already is no error.
	Delete(ctx context.Context, digest string) error
}

// Member is one of several stores that each have a copy.
type Member struct {
	Name string // for messages
	Store
}

// Info describes a blob.
type Info struct {
	Digest   string
	Size     int64
	Modified time.Time // when it was stored
}

// Open returns a blob of a store, to be read at any place.
func Open(ctx context.Context, s Store, digest string) (blob.Blob, error) {
	if d, ok := s.(*Dir); ok {
		return d.open(digest)
	}
	info, err := s.Stat(ctx, digest)
	if err != nil {
		return nil, err
	}
	get := func(at, n int64) (io.ReadCloser, error) { return s.Get(ctx, digest, at, n) }
	return remoteBlob{info.Size, get}, nil
}

// remoteBlob is a blob of a store, each read of which is a request.
type remoteBlob struct {
	size int64
	get  func(at, n int64) (io.ReadCloser, error) // under Open's context: io.ReaderAt has none
}

const readSize = 4 << 20 // of sequential reads: fewer requests, and little memory

func (b remoteBlob) Size() int64  { return b.size }
func (b remoteBlob) Close() error { return nil }

func (b remoteBlob) ReadAt(p []byte, at int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n := min(int64(len(p)), b.size-at)
	if n <= 0 {
		return 0, io.EOF
	}
	r, err := b.get(at, n)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	got, err := io.ReadFull(r, p[:n])
	if err == nil && got < len(p) {
		err = io.EOF
	}
	return got, err
}

// Verify reads a whole copy and compares it with its digest. A wrong one is of kind errs.Invalid.
func Verify(ctx context.Context, s Store, digest string) error {
	return Read(ctx, s, digest, io.Discard)
}

// Read copies a blob to w. When it fails, and with the kind errs.Invalid when the copy is damaged, what w has is worth
// nothing.
func Read(ctx context.Context, s Store, digest string, w io.Writer) error {
	r, err := s.Get(ctx, digest, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = copyVerified(ctx, w, r, digest)
	return err
}

// VerifyBlob reads a blob and compares it with a digest. A wrong one is of kind errs.Invalid.
func VerifyBlob(ctx context.Context, b blob.Blob, digest string) error {
	_, err := copyVerified(ctx, io.Discard, blob.Reader(b), digest)
	return err
}

// copyVerified copies, and fails when what was copied has another digest.
func copyVerified(ctx context.Context, to io.Writer, from io.Reader, digest string) (int64, error) {
	h := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(to, h), ctxio.Until(ctx, from), make([]byte, readSize))
	if err != nil {
		return n, err
	}
	if got := blob.Named(h.Sum(nil)); got != digest {
		return n, errs.New(errs.Invalid, "%s holds %d other bytes, of the digest %s", digest, n, got)
	}
	return n, nil
}

// file returns the name of a blob.
func file(digest, suffix string) (string, error) {
	name, ok := blob.Hex(digest)
	if !ok {
		return "", errs.Bad("digest", digest, "give a whole sha256 digest")
	}
	return name + suffix, nil
}

func missing(where, digest string, err error) error {
	return errs.New(errs.NotFound, "%s has no %s: %w", where, digest, err)
}

// checkRange refuses what no blob has.
func checkRange(offset, length, size int64) (int64, error) {
	if offset < 0 || offset > size {
		return 0, errs.Bad("offset", offset, fmt.Sprintf("the blob has %d bytes", size))
	}
	if length < 0 || length > size-offset {
		length = size - offset
	}
	return length, nil
}
