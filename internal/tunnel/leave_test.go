package tunnel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// within fails a test in which f waits for what does not come.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(testenv.Hang):
		t.Fatalf("%s: it waits", what)
	}
}

// Closing a stream waits for nobody: an agent that takes no messages would else hold up all others.
func TestCloseWaitsForNobody(t *testing.T) {
	t.Run("sockets", func(t *testing.T) {
		p, _ := lined(t)
		c, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			t.Fatal(err)
		}
		full(t, p.links.find(p.id).current().sockets)
		reading := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			reading <- err
		}()
		within(t, "close", func() { _ = c.Close() })
		within(t, "a reader", func() { err = <-reading })
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v", err)
		}
	})
	t.Run("multiplexer", func(t *testing.T) {
		ours, theirs := net.Pipe()
		m, err := newMux(ours, "s-x", false, slog.New(slog.DiscardHandler), nil, func(context.Context, Door, *Conn) {})
		if err != nil {
			t.Fatal(err)
		}
		go m.serve(t.Context())
		defer m.close()
		defer theirs.Close()
		for range 2 { // the link's own stream, and the test's
			go func() { _, _ = io.ReadFull(theirs, make([]byte, 2*headerSize+1)) }()
		}
		var c *Conn
		within(t, "open", func() { c, err = m.dial(DoorApp) })
		if err != nil {
			t.Fatal(err)
		}
		within(t, "close", func() { _ = c.Close() })
	})
}

// full fills the line, as where the peer takes no messages.
func full(t *testing.T, s *sockets) {
	t.Helper()
	s.sending.Lock()
	defer s.sending.Unlock()
	raw, err := s.line.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	b := message{kind: lineOpen, number: 1 << 40}.bytes()
	err = raw.Control(func(fd uintptr) {
		for errors.Is(unix.Sendto(int(fd), b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil), nil) {
			runtime.Gosched()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Who waits for the peer's word that it has ended is woken as every reader is.
func TestWaitForTheWordEnds(t *testing.T) {
	p, s := lined(t)
	begin := func() (net.Conn, <-chan error) {
		c, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			t.Fatal(err)
		}
		theirs := s.accepted(t)
		_ = theirs.raw.CloseWrite() // without a word
		reading := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			reading <- err
		}()
		testenv.Until(t, "it waits", testenv.Hang, func() bool {
			c := c.(*socketConn)
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.moved != nil
		})
		return c, reading
	}
	var err error
	c, reading := begin()
	_ = c.SetReadDeadline(time.Now().Add(time.Hour))
	_ = c.SetReadDeadline(time.Unix(1, 0))
	within(t, "a reader with a deadline", func() { err = <-reading })
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past its deadline: %v", err)
	}
	_ = c.SetReadDeadline(time.Time{})
	_ = s.send(message{kind: lineEnd, number: c.(*socketConn).number}, nil)
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the word: %v", err)
	}
	c, reading = begin()
	full(t, p.links.find(p.id).current().sockets)
	go func() { _ = c.Close() }()
	within(t, "a reader of a stream that is closed", func() { err = <-reading })
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// Where a stream's socket cannot be passed on, this stream fails, and no other.
func TestOneStreamFails(t *testing.T) {
	p := newPair(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
	s := p.links.find(p.id).current().sockets
	passed, err := os.CreateTemp(t.TempDir(), "closed")
	if err != nil {
		t.Fatal(err)
	}
	_ = passed.Close()
	if err := s.send(message{lineOpen, 1 << 40, DoorApp}, passed); err == nil {
		t.Fatal("a file that is closed was passed on")
	}
	c, err := p.links.Dial(t.Context(), p.id, DoorApp)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, c)
}

// Who has a stream learns that the other side has closed it, once all that came before was read, and also where it
// ended its own direction first. Who only ends a direction is still there.
func TestLeft(t *testing.T) {
	overEach(t, func(t *testing.T, carrier string) {
		streams := make(chan net.Conn, 1)
		p := newPairOver(t, carrier, map[Door]func(context.Context, net.Conn){DoorApp: func(_ context.Context, c net.Conn) { streams <- c }})
		for _, halfFirst := range []bool{false, true} {
			near, err := p.links.Dial(t.Context(), p.id, DoorApp)
			if err != nil {
				t.Fatal(err)
			}
			far, left := <-streams, make(chan struct{})
			far.(interface{ AfterLeft(func()) }).AfterLeft(func() { close(left) })
			_, _ = io.WriteString(near, "the rest")
			if halfFirst {
				_ = near.(interface{ CloseWrite() error }).CloseWrite()
				readAll(t, far)
				select {
				case <-left:
					t.Error("an end of one direction was taken for both")
				default:
				}
			}
			_ = near.Close()
			if !halfFirst {
				readAll(t, far)
			}
			within(t, "who has the other end", func() { <-left })
			_ = far.Close()
		}
	})
}

func readAll(t *testing.T, c net.Conn) {
	t.Helper()
	if b, err := io.ReadAll(c); string(b) != "the rest" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// A stream that was reset with something unread in it has ended for who copies it, wherever it is copied to.
func TestResetIsAnEnd(t *testing.T) {
	p, s := lined(t)
	for _, to := range []string{"TCP", "elsewhere"} {
		c, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			t.Fatal(err)
		}
		theirs := s.accepted(t)
		_, _ = io.WriteString(c, "unread")
		_, _ = io.WriteString(theirs, "all")
		_ = s.send(message{lineEnd, theirs.number, wholly}, nil)
		_ = theirs.raw.Close()
		var w io.Writer = new(strings.Builder)
		if to == "TCP" {
			w, _ = twoTCP(t)
		}
		if n, err := io.Copy(w, c); n != 3 || err != nil {
			t.Errorf("to %s: %d, %v", to, n, err)
		}
		_ = c.Close()
		if m := s.told(t); m.kind != lineEnd || m.door != wholly {
			t.Errorf("the agent hears %v", m)
		}
	}
}

// A session that can take no more says so.
func TestFullSession(t *testing.T) {
	p := newPair(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
	c, err := p.links.Dial(t.Context(), p.id, DoorApp)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, c) // the agent is up, too
	p.uplink.mu.Lock()
	agent := p.uplink.live.sockets
	p.uplink.mu.Unlock()
	agent.mu.Lock()
	for n := range uint64(ownStreams) {
		agent.conns[1<<32+n] = &socketConn{}
	}
	agent.mu.Unlock()
	if c, err = p.links.Dial(t.Context(), p.id, DoorApp); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "no room") {
		t.Errorf("read: %v", err)
	}
	agent.mu.Lock()
	for n := range uint64(ownStreams) { // and not the first stream, whose end may still be told
		delete(agent.conns, 1<<32+n)
	}
	agent.mu.Unlock()
	if c, err = p.links.Dial(t.Context(), p.id, DoorApp); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, c)
}
