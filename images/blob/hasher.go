package blob

import (
	"crypto/sha256"
	"hash"
	"io"
)

// Hasher passes on what is written to it, and knows its size and digest.
type Hasher struct {
	to   io.Writer
	sum  hash.Hash
	size int64
}

// NewHasher returns a Hasher that passes on to a writer.
func NewHasher(to io.Writer) *Hasher { return &Hasher{to: to, sum: sha256.New()} }

// Digest returns the digest of what has arrived.
func (h *Hasher) Digest() string { return Named(h.sum.Sum(nil)) }

// Size returns how many bytes have arrived.
func (h *Hasher) Size() int64 { return h.size }

// Count counts p as if it had arrived, and does not pass it on.
func (h *Hasher) Count(p []byte) {
	h.sum.Write(p)
	h.size += int64(len(p))
}

// Write passes p on; only what has arrived counts.
func (h *Hasher) Write(p []byte) (int, error) {
	n, err := h.to.Write(p)
	h.Count(p[:n])
	return n, err
}
