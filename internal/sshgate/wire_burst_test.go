package sshgate

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

// ready is a connection on which all has come already.
type ready struct {
	net.Conn
	from  io.Reader
	reads int
}

func (r *ready) Read(p []byte) (int, error) {
	r.reads++
	return r.from.Read(p)
}

// TestBurst: read as x/crypto does, long packets come whole and in few reads, and an idle connection holds no buffer.
func TestBurst(t *testing.T) {
	want := make([]byte, 4<<20)
	for i := range want {
		want[i] = byte(i * i >> 8)
	}
	c := &ready{from: bytes.NewReader(want)}
	w := newWire(c, &counts{})
	var got []byte
	for packets := 0; ; packets++ {
		p := make([]byte, []int{4 << 10, 28 << 10, 1 + rand.IntN(40<<10)}[packets%3])
		n, err := w.Read(p)
		got = append(got, p[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
	}
	if !bytes.Equal(got, want) || w.counts.read.Load() != int64(len(want)) || w.burst != nil {
		t.Errorf("%d bytes of %d, %d counted, held: %v", len(got), len(want), w.counts.read.Load(), w.burst != nil)
	}
	if most := 2*len(want)/large + 2; c.reads > most {
		t.Errorf("%d reads, and at most %d should be", c.reads, most)
	}
}
