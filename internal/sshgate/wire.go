package sshgate

import (
	"bytes"
	"errors"
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

	first   []byte // what has come of the client's first line
	greeted func() // called when that is a version of the protocol; nil: it was
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
	if w.greeted != nil && err == nil {
		if err = w.greet(p[:n]); err != nil {
			n = 0
		}
	}
	if err != nil {
		w.once.Do(func() { close(w.gone) })
	}
	return n, err
}

// mostVersion is how long RFC 4253 section 4.2 lets the first line be.
const mostVersion = 255

var errNoSSH = errors.New("no ssh of version 2 is spoken")

// greet looks at the client's first line, so that what speaks something else is not listened to.
func (w *wire) greet(p []byte) error {
	w.first = append(w.first, p...)
	line, _, whole := bytes.Cut(w.first, []byte("\n"))
	short := whole && len(line) <= len("SSH-2.0-")
	if short || len(line) > mostVersion || !begins(line, "SSH-2.0-") && !begins(line, "SSH-1.99-") {
		return errNoSSH
	}
	if whole {
		w.greeted()
		w.first, w.greeted = nil, nil
	}
	return nil
}

// begins reports whether a line begins with a word, as far as it has come.
func begins(line []byte, word string) bool {
	n := min(len(line), len(word))
	return string(line[:n]) == word[:n]
}

// Write writes and counts.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.counts.written.Add(int64(n))
	return n, err
}

// silence is how long nothing has come.
func (w *wire) silence() time.Duration { return time.Since(w.begun) - time.Duration(w.heard.Load()) }
