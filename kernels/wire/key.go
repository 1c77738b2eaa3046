package wire

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

const (
	delimiter = "<IDS|MSG>"
	remember  = 1 << 14 // signatures, to know one that comes again
	maxNames  = 16      // frames before the delimiter
)

// The signature of a message that was refused.
var (
	ErrSignature = errors.New("message: its signature is wrong")
	ErrReplayed  = errors.New("message: its signature has come before")
)

// Key signs what goes to a kernel and verifies what comes from it. It may be used by many at once.
type Key struct {
	secret []byte

	mu   sync.Mutex
	seen *Latest[[sha256.Size]byte] // signatures
}

// NewKey makes the key of a connection file's text.
func NewKey(secret []byte) *Key {
	return &Key{secret: bytes.Clone(secret), seen: NewLatest[[sha256.Size]byte](remember)}
}

// Frames returns the frames of a message, signed, as a DEALER sends them.
func (k *Key) Frames(m Message) [][]byte {
	parts := [][]byte{m.Header, m.Parent, m.Metadata, m.Content}
	sum := k.sign(parts)
	frames := append([][]byte{[]byte(delimiter), hex.AppendEncode(nil, sum[:])}, parts...)
	return append(frames, m.Buffers...)
}

func (k *Key) sign(parts [][]byte) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, k.secret)
	for _, p := range parts {
		_, _ = h.Write(p)
	}
	h.Sum(sum[:0])
	return sum
}

// Parse reads a message of a channel. Frames before the delimiter (identities, a topic) are left out.
func (k *Key) Parse(c Channel, frames [][]byte) (Message, error) {
	at := -1
	for i, f := range frames[:min(len(frames), maxNames)] {
		if string(f) == delimiter {
			at = i
			break
		}
	}
	if at < 0 {
		return Message{}, errors.New("message: no delimiter among its first frames")
	}
	rest := frames[at+1:]
	if len(rest) < 5 || len(rest) > maxParts {
		return Message{}, fmt.Errorf("message: %d frames behind the delimiter", len(rest))
	}
	if err := k.verify(rest[0], rest[1:5]); err != nil {
		return Message{}, err
	}
	for _, p := range rest[1:5] {
		if p = bytes.TrimLeft(p, " \t\r\n"); len(p) == 0 || p[0] != '{' {
			return Message{}, errors.New("message: a part of it is no JSON object")
		}
	}
	m := Message{Channel: c, Header: rest[1], Parent: rest[2], Metadata: rest[3], Content: json.RawMessage(rest[4])}
	if len(rest) > 5 {
		m.Buffers = rest[5:]
	}
	return m, nil
}

func (k *Key) verify(signature []byte, parts [][]byte) error {
	var got [sha256.Size]byte
	if len(signature) != 2*len(got) {
		return ErrSignature
	}
	if _, err := hex.Decode(got[:], signature); err != nil {
		return ErrSignature
	}
	if want := k.sign(parts); !hmac.Equal(got[:], want[:]) {
		return ErrSignature
	}
	return k.first(got)
}

// first says whether a signature comes for the first time, of the latest.
func (k *Key) first(sum [sha256.Size]byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.seen.First(sum) {
		return ErrReplayed
	}
	return nil
}
