package sshd

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// pulse knows how many channels are open, and when something last came or went through them. Requests, of which
// keepalives are, do not count.
type pulse struct {
	open  atomic.Int64
	began time.Time
	last  atomic.Int64 // since began; zero: never
}

func newPulse() *pulse { return &pulse{began: time.Now()} }

func (p *pulse) beat() { p.last.Store(max(int64(time.Since(p.began)), 1)) }

// Activity returns how many channels are open and when data last went through one, either way; a zero time: never.
func (s *Server) Activity() (open int, last time.Time) {
	if n := s.pulse.last.Load(); n > 0 {
		last = s.pulse.began.Add(time.Duration(n))
	}
	return int(s.pulse.open.Load()), last
}

// Bytes that go through a forward within a span of time before somebody is taken to be at work. Editors say every few
// seconds that they are still there, for as long as their window is open.
const (
	murmur     = 2 << 10
	murmurSpan = time.Minute
)

// trickle is the pulse of one forwarded connection.
type trickle struct {
	pulse *pulse

	mu    sync.Mutex
	since time.Time
	bytes int
}

func (t *trickle) moved(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.since) > murmurSpan {
		t.since, t.bytes = now, 0
	}
	if t.bytes += n; t.bytes > murmur {
		t.pulse.beat()
	}
}

// felt tells of what is read and written through it.
type felt struct {
	io.Reader
	io.Writer
	moved func(int)
}

// Read reads.
func (f felt) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if n > 0 {
		f.moved(n)
	}
	return n, err
}

// Write writes.
func (f felt) Write(b []byte) (int, error) {
	f.moved(len(b))
	return f.Writer.Write(b)
}
