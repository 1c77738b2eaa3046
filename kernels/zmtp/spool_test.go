package zmtp

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// What is read ahead comes as it was, and its pieces are used again.
func TestSpool(t *testing.T) {
	want := make([]byte, 20*spoolPiece+1)
	for i := range want {
		want[i] = byte(rand.Uint32())
	}
	for name, from := range map[string]io.Reader{"at once": bytes.NewReader(want), "by halves": iotest.HalfReader(bytes.NewReader(want))} {
		s := newSpool(from)
		filled := make(chan struct{})
		go func() { s.fill(); close(filled) }()
		got, err := io.ReadAll(iotest.HalfReader(s))
		if <-filled; err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(want), err)
		}
		if s.size != 0 || len(s.pieces) > 1 || len(s.spare) == 0 || len(s.spare) > spoolSpare {
			t.Errorf("%s: %d bytes, %d pieces and %d spare ones are left", name, s.size, len(s.pieces), len(s.spare))
		}
	}
}
