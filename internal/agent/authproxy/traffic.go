package authproxy

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// What tells work from an open page, by what pages of VS Code 1.99 send, on each of their two connections. In front of
// which nobody sits: 13 to 17 frames a minute of 7 bytes, that they live and have got what they were sent, and every
// few minutes one of up to 35 bytes; while a terminal prints a line a second, 60 more of 16 bytes. That says nothing of
// anybody, and of what computes the processors' time tells. A key in a terminal is a frame of 36 to 51 bytes, one in a
// file makes 250. A connection that is made anew, as after a night's sleep of the computer, begins with 1000 bytes; a
// page that is opened sends 90,000.
const (
	window    = time.Minute
	small     = 24   // bytes of frames that do not count
	idleBytes = 100  // more than that in a window is work
	greeting  = 2000 // bytes that a connection may send at its beginning
)

// Traffic is what goes through the connections that stay open.
type Traffic struct {
	Open int // connections
	// When one last carried more towards the program than a page does in front of which nobody sits; zero: never.
	Acted time.Time
	Ended time.Time // when the last one ended that was open; zero: none has
}

// traffic counts what browsers send.
type traffic struct {
	mu    sync.Mutex
	state Traffic
}

func newTraffic() *traffic { return &traffic{} }

func (t *traffic) now() Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

func (t *traffic) begin() *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.Open++
	return &line{all: t, since: time.Now(), count: -greeting}
}

// line is one connection.
type line struct {
	all   *traffic
	since time.Time // when the count began
	count int       // bytes of messages since then
	in    frames
}

func (l *line) end() {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.all.state.Open--
	l.all.state.Ended = time.Now()
}

// note counts what came from the browser.
func (l *line) note(b []byte) {
	n := l.in.scan(b)
	if n == 0 {
		return
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	now := time.Now()
	if now.Sub(l.since) >= window {
		l.since, l.count = now, 0
	}
	if l.count += n; l.count > idleBytes {
		l.all.state.Acted = now
	}
}

// metered returns a connection that counts what is read from it, once it is no longer HTTP.
type metered struct {
	http.ResponseWriter
	line *line
}

// Hijack takes the connection over.
func (m metered) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(m.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return meteredConn{c, m.line}, rw, nil
}

// Unwrap lets the rest of a response's abilities be found.
func (m metered) Unwrap() http.ResponseWriter { return m.ResponseWriter }

type meteredConn struct {
	net.Conn
	line *line
}

// Read counts.
func (c meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.line.note(b[:n])
	return n, err
}
