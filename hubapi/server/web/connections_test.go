package web

import (
	"net"
	"net/http"
	"testing"
)

// TestConnectionsAreBounded: where there are too many, the one goes that has done nothing for longest.
func TestConnectionsAreBounded(t *testing.T) {
	lines := newConnLimit(3)
	conns := make([]net.Conn, 5)
	cut := make([]chan error, 5)
	for i := range conns {
		theirs, mine := net.Pipe()
		conns[i], cut[i] = mine, make(chan error, 1)
		go func() { _, err := theirs.Read(make([]byte, 1)); cut[i] <- err }()
	}
	lines.note(conns[0], http.StateNew)
	lines.note(conns[0], http.StateActive)
	lines.note(conns[1], http.StateNew)
	lines.note(conns[1], http.StateIdle)
	lines.note(conns[2], http.StateNew)
	lines.note(conns[3], http.StateNew)
	if err := <-cut[1]; err == nil {
		t.Error("the idle one goes on")
	}
	lines.note(conns[1], http.StateClosed)
	for _, c := range conns[2:4] {
		lines.note(c, http.StateActive)
	}
	lines.note(conns[4], http.StateNew)
	if err := <-cut[4]; err == nil {
		t.Error("one more goes on, and none can go")
	}
	for i, c := range conns {
		_ = c.Close()
		if i != 1 {
			lines.note(c, http.StateClosed)
		}
		if i != 1 && i != 4 {
			<-cut[i]
		}
	}
	if n := len(lines.idle) + lines.busy; n != 0 {
		t.Errorf("%d connections are left in the books", n)
	}
}
