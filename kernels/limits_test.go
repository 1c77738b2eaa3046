package kernels_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/kernels"
	"slipway/kernels/wire"
	"slipway/spawner"
)

func TestSocketsOfAUser(t *testing.T) {
	s := newSite(t, func(c *kernels.Config) { c.Sockets = 40 })
	one, two := s.start(), s.start()
	hers := http.Header{"Authorization": {"token alice"}}
	first := s.open(one, "first")
	for i := range 31 {
		s.open(one, fmt.Sprint(i))
	}
	if got := s.knock(one, hers, ""); got != 429 {
		t.Errorf("the 33rd to one kernel: %d", got)
	}
	for i := range 8 {
		s.open(two, fmt.Sprint(i))
	}
	a := s.as("alice", "GET", "/api/kernels/"+two+"/channels", "")
	if a.status != 429 || !strings.Contains(a.field("message"), "40 connections") {
		t.Errorf("the 41st of all: %+v", a)
	}
	_ = first.CloseNow()
	s.until("there is room again", func() bool { return s.knock(two, hers, "") == 101 })
}

// While a kernel takes nothing, its user's clients are not listened to for longer than what they say fits into her
// share; others are, and in the end they are told so.
func TestRoomOfAUser(t *testing.T) {
	g := kernels.NewGuests()
	a, leave := g.Enter(spawner.Caller{User: "alice"})
	b, gone := g.Enter(spawner.Caller{User: "alice"})
	other, left := g.Enter(spawner.Caller{User: "bob"})
	defer left()
	if a != b || a == other {
		t.Error("a user is one guest, whatever she does")
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := errors.Join(a.MakeRoom(ctx, 100<<20), b.MakeRoom(ctx, 28<<20), other.MakeRoom(ctx, 128<<20)); err != nil {
		t.Error(err)
	}
	cancel()
	if err := a.MakeRoom(ctx, 1); err == nil {
		t.Error("there is ever more room")
	}
	leave()
	gone()
	if g.Len() != 1 {
		t.Errorf("%d guests are remembered", g.Len())
	}
}

// A client says something large for longer than two pings take, and is not taken for dead.
func TestSlowUpload(t *testing.T) {
	s := newSite(t, func(c *kernels.Config) { c.Ping = time.Second })
	id := s.start()
	c := s.plain(id)
	size := 150 << 10
	text := `{"channel": "shell", "header": {"msg_id": "1", "msg_type": "execute_request"}, "parent_header": {}, "metadata": {}, "content": {"code": "` + strings.Repeat("x", size) + `"}}`
	if _, err := c.Write([]byte{0x81, 0xff, 0, 0, 0, 0, byte(len(text) >> 24), byte(len(text) >> 16), byte(len(text) >> 8), byte(len(text)), 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	for begun, rest := range strings.SplitAfter(text, strings.Repeat("x", 6<<10)) {
		if _, err := io.WriteString(c, rest); err != nil {
			t.Fatalf("after %d parts: %v", begun, err)
		}
		s.pause()
	}
	m := <-s.agent("s-" + spawner.ID(id)).heard
	if m.Size() < size {
		t.Errorf("it heard %d bytes", m.Size())
	}
}

// What nobody takes is kept up to a limit, and what was said is not lost while its client is not listened to.
func TestManyCellsWhileItStarts(t *testing.T) {
	s := newSite(t, func(c *kernels.Config) { c.Ping = ping })
	s.slow = true
	id := s.start()
	b := s.open(id, "one", wire.V1Name)
	reading := make(chan error, 1)
	heard := make(chan string, 100)
	go func() {
		for {
			m, err := b.next()
			if err != nil {
				reading <- err
				return
			}
			if m.Type() == "execute_request" {
				heard <- string(m.Content)
			}
		}
	}()
	for i := range 50 {
		b.say(ask(fmt.Sprint("cell ", i, ";")))
	}
	for range 5 {
		s.pause() // pings that stand behind the cells
	}
	s.become(func(w *spawner.Workload) { w.Phase = spawner.Running })
	for i := range 50 {
		select {
		case got := <-heard:
			if !strings.Contains(got, fmt.Sprint("cell ", i, ";")) {
				t.Fatalf("%d: %s", i, got)
			}
		case err := <-reading:
			t.Fatalf("before %d: %v", i, err)
		}
	}
}

// ping is how often it is asked for clients, and for how long, in tests of just that.
const ping = 100 * time.Millisecond

// pause waits for as long as a ping takes.
func (s *site) pause() {
	select {
	case <-time.After(ping):
	case <-s.Context().Done():
	}
}

// address is where the service listens.
func (s *site) address() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/kernels")
}

// plain opens a websocket by hand.
func (s *site) plain(id string) net.Conn {
	s.Helper()
	c, err := net.Dial("tcp", s.address())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	fmt.Fprintf(c, "GET /kernels/api/kernels/%s/channels?session_id=one HTTP/1.1\r\nHost: x\r\nAuthorization: token alice\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", id)
	return c
}

// A client that takes long for something large gets all of it.
func TestSlowDownload(t *testing.T) {
	s := newSite(t, func(c *kernels.Config) { c.Ping = time.Second })
	id := s.start()
	m, err := wire.New(wire.IOPub, "display_data", nil, map[string]string{"x": strings.Repeat("x", 12<<20)})
	if err != nil {
		t.Fatal(err)
	}
	a := s.agent("s-" + spawner.ID(id))
	a.mu.Lock()
	a.journals["one"] = [][]byte{wire.EncodeV1(m)}
	a.mu.Unlock()
	c := s.plain(id)
	if err := c.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(long))
	for got, part := 0, make([]byte, 400<<10); got < 12<<20; s.pause() {
		n, err := io.ReadFull(c, part)
		if got += n; err != nil && got < 12<<20 {
			t.Fatalf("after %d bytes: %v", got, err)
		}
	}
}
