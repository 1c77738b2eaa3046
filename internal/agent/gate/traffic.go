package gate

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// Traffic is what goes through the connections that stay open.
type Traffic struct {
	Open  int       // connections
	Acted time.Time // when one last carried more towards the program than a page does in front of which nobody sits; zero: never
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
	return &line{all: t}
}

// line is one connection.
type line struct {
	all   *traffic
	since time.Time // when the count began
	count int       // bytes since then
}

func (l *line) end() {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.all.state.Open--
	l.all.state.Ended = time.Now()
}

// note counts bytes that came from the browser.
func (l *line) note(n int) {
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

// metered gives a connection that counts what is read from it, once it is no longer HTTP.
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
	c.line.note(n)
	return n, err
}

const (
	window    = time.Minute
	idleBytes = 2000
)
