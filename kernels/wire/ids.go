package wire

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// NewID makes an id that no other message has.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// NewUUID makes an id that no other kernel has.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return UUID(b)
}

// UUID returns the id that bytes without a meaning stand for, in the form in which Jupyter's kernels have theirs.
func UUID(b [16]byte) string {
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
