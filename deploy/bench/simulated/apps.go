package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"slipway/spawner"
)

// apps are the apps of all sessions. They lie in other processes in the world that is played, so they cost next to
// nothing here: an app is a connection that knows what it is asked and answers it, without a goroutine and without
// buffers of its own.
type apps struct{ version string } // of JupyterHub, as its single-user servers tell it

// dial opens a connection to a session's app: server.Config.Dial.
func (a apps) dial(context.Context, spawner.ID) (net.Conn, error) {
	return &app{version: a.version, wake: make(chan struct{}, 1)}, nil
}

// app is the near end of a connection to an app.
type app struct {
	version string
	wake    chan struct{} // holds one token when something changed for a reader
	mu      sync.Mutex    // guards all below
	asked   []byte        // the beginning of a request
	answer  []byte        // what is to be read
	closed  bool
}

// mostHead is the most that a request's head may take.
const mostHead = 64 << 10

// Write takes requests without a body. Any other ends the connection.
func (a *app) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked = append(a.asked, p...); a.closed || len(a.asked) > mostHead {
		return 0, net.ErrClosed
	}
	for {
		head, rest, whole := bytes.Cut(a.asked, []byte("\r\n\r\n"))
		if !whole {
			return len(p), nil
		}
		a.answer = append(a.answer, a.respond(string(head))...)
		if a.asked = rest; len(rest) == 0 {
			a.asked = nil
		}
		a.tell()
	}
}

// respond answers what a Hub asks a new server for, and says to all else that there is no app.
func (a *app) respond(head string) string {
	method, rest, _ := strings.Cut(head, " ")
	target, _, _ := strings.Cut(rest, " ")
	path, _, _ := strings.Cut(target, "?")
	kind, body, end := "text/plain", "This session is simulated: nothing runs in it.\n", ""
	switch {
	case method != "GET":
		a.closed, end = true, "Connection: close\r\n"
	case strings.HasSuffix(path, "/api"):
		kind, body = "application/json", `{"version": "simulated"}`+"\n"
	}
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nX-JupyterHub-Version: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n%s",
		a.version, kind, len(body), end, body)
}

// tell wakes the reader.
func (a *app) tell() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Read returns the answers.
func (a *app) Read(p []byte) (int, error) {
	for {
		a.mu.Lock()
		n := copy(p, a.answer)
		if a.answer = a.answer[n:]; len(a.answer) == 0 {
			a.answer = nil
		}
		closed := a.closed
		a.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case closed:
			a.tell() // who reads next is to see it too
			return 0, io.EOF
		}
		<-a.wake
	}
}

// Close ends the connection.
func (a *app) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.tell()
	return nil
}

// LocalAddr names no address.
func (a *app) LocalAddr() net.Addr { return &net.UnixAddr{Name: "simulated", Net: "unix"} }

// RemoteAddr names no address.
func (a *app) RemoteAddr() net.Addr { return a.LocalAddr() }

// SetDeadline is refused: the service's proxy sets none.
func (a *app) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline is refused.
func (a *app) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline is refused.
func (a *app) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
