package sshgate

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// wire is a client's connection. It knows when it was last heard of, and that it is gone also while nobody waits for
// what it says.
type wire struct {
	net.Conn
	counts *counts
	heard  atomic.Int64 // nanoseconds since begun
	begun  time.Time
	once   sync.Once
	gone   chan struct{} // closed when nothing more can be read

	burst *[large]byte // nil: rest is empty
	rest  []byte       // of what has come at once
}

func newWire(c net.Conn, counts *counts) *wire {
	return &wire{Conn: c, counts: counts, begun: time.Now(), gone: make(chan struct{})}
}

// inPacket is more than what x/crypto asks for when it waits for a packet: who asks for so much waits for the rest of
// one.
const inPacket = 8 << 10

// Read reads and counts. With the rest of a long packet it takes the next ones too, as far as they are there.
func (w *wire) Read(p []byte) (int, error) {
	if w.burst == nil && len(p) < inPacket {
		return w.read(p)
	}
	if w.burst == nil {
		w.burst = buffers.Get().(*[large]byte)
		n, err := w.read(w.burst[:])
		w.rest = w.burst[:n]
		if err != nil && n == 0 {
			w.drained()
			return 0, err
		}
	}
	n := copy(p, w.rest)
	if w.rest = w.rest[n:]; len(w.rest) == 0 {
		w.drained()
	}
	return n, nil
}

// drained gives the buffer back: most connections are idle.
func (w *wire) drained() {
	buffers.Put(w.burst)
	w.burst, w.rest = nil, nil
}

func (w *wire) read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.counts.read.Add(int64(n))
		w.heard.Store(int64(time.Since(w.begun)))
	}
	if err != nil {
		w.once.Do(func() { close(w.gone) })
	}
	return n, err
}

// Write writes and counts.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.counts.written.Add(int64(n))
	return n, err
}

// silence is how long nothing has come.
func (w *wire) silence() time.Duration { return time.Since(w.begun) - time.Duration(w.heard.Load()) }
