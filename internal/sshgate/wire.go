package sshgate

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// wire is a client's connection. It knows when it was last heard of, and that it is gone also while nobody waits for what it says.
type wire struct {
	net.Conn
	counts *counts
	heard  atomic.Int64 // nanoseconds since begun
	begun  time.Time
	once   sync.Once
	gone   chan struct{} // closed when nothing more can be read
}

func newWire(c net.Conn, counts *counts) *wire {
	return &wire{Conn: c, counts: counts, begun: time.Now(), gone: make(chan struct{})}
}

// Read reads and counts.
func (w *wire) Read(p []byte) (int, error) {
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
