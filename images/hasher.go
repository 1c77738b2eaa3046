package images

import (
	"crypto/sha256"
	"hash"
	"io"
)

// hasher passes on what is written to it, and knows its size and digest.
type hasher struct {
	to   io.Writer
	sum  hash.Hash
	size int64
}

func newHasher(to io.Writer) *hasher { return &hasher{to: to, sum: sha256.New()} }

// Write passes p on; only what has arrived counts.
func (h *hasher) Write(p []byte) (int, error) {
	n, err := h.to.Write(p)
	h.sum.Write(p[:n])
	h.size += int64(n)
	return n, err
}
