package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"strings"
)

const digestPrefix = "sha256:"

// digestHex returns the hexadecimal part of a digest; ok is false for anything but a whole sha256 digest.
func digestHex(digest string) (hexPart string, ok bool) {
	h, found := strings.CutPrefix(digest, digestPrefix)
	return h, found && len(h) == sha256.Size*2 && isHex(h)
}

// hexOrNone names the files of a digest. What is not a digest names files that cannot exist.
func hexOrNone(digest string) string {
	if h, ok := digestHex(digest); ok {
		return h
	}
	return "none"
}

func isHex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdef") == ""
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + hex.EncodeToString(sum[:])
}

func sumOf(h hash.Hash) string { return digestPrefix + hex.EncodeToString(h.Sum(nil)) }

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

// copySection copies bytes [from, to) of r, and can be canceled.
func copySection(ctx context.Context, w io.Writer, r io.ReaderAt, from, to int64) error {
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
