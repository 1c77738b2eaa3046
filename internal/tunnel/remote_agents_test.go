package tunnel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// TestFlaps: a network that breaks a hundred times costs the streams that are open, each with an error, and nothing
// else.
func TestFlaps(t *testing.T) {
	a := newRemoteSite(t, nil)
	a.agent(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
	for n := range 100 {
		c := a.stream(t)
		if _, err := io.WriteString(c, "ping"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { _, err := io.ReadAll(c); ended <- err }()
		a.cut.all()
		if err := <-ended; err == nil {
			t.Errorf("cut %d: a stream ended as if all had been read", n)
		}
		if _, err := c.Write(make([]byte, 1)); err == nil {
			t.Errorf("cut %d: writing to a lost stream: no error", n)
		}
		_ = c.Close()
	}
	roundTrip(t, a.stream(t))
	if made := a.cut.made.Load(); made > 250 {
		t.Errorf("%d connections were made for 100 cuts", made)
	}
}

// stream opens a stream to the app as soon as there is a link.
func (a *remoteSite) stream(t *testing.T) net.Conn {
	t.Helper()
	for {
		a.wait(t)
		c, err := a.links.Dial(t.Context(), a.id, DoorApp)
		if err == nil {
			return c
		}
		if !errs.Is(err, errs.Unavailable) {
			t.Fatal(err)
		}
	}
}

// A service that is restarted finds its agents again, and what waited for it goes on.
func TestRemoteRestart(t *testing.T) {
	a := newRemoteSite(t, nil)
	told, d := make(chan bool, 16), NewDialer()
	run(t, NewUplink(UplinkConfig{
		Doors: map[Door]func(context.Context, net.Conn){DoorApp: echo}, Changed: func(up bool) { told <- up }, Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context) (net.Conn, error) { return d.Dial(ctx, a.uplink()) },
	}).Run)
	if up := <-told; !up {
		t.Error("the first that is told is that the link went down")
	}
	a.stop()
	if up := <-told; up {
		t.Error("after the service's end the link is up")
	}
	a.serve(t, nil)
	roundTrip(t, a.stream(t))
}

// Nothing that bounds requests cuts a link.
func TestLinkOutlivesTheLimitsOfRequests(t *testing.T) {
	const limit = 200 * time.Millisecond
	a := newRemoteSite(t, nil, func(s *http.Server) {
		s.ReadTimeout, s.WriteTimeout, s.IdleTimeout, s.ReadHeaderTimeout = limit, limit, limit, limit
	})
	a.agent(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
	a.wait(t)
	made := a.cut.made.Load()
	for end := time.Now().Add(3 * limit); time.Now().Before(end); {
		roundTrip(t, a.stream(t))
	}
	if now := a.cut.made.Load(); now != made {
		t.Errorf("%d connections more were made", now-made)
	}
}

// Of two agents with one credential the later has the link, for good, and the earlier is told.
func TestSecondAgentWins(t *testing.T) {
	up := make(chan bool, 16)
	a := newRemoteSite(t, func(_ string, is bool) { up <- is })
	name := func(s string) map[Door]func(context.Context, net.Conn) {
		return map[Door]func(context.Context, net.Conn){DoorApp: func(_ context.Context, c net.Conn) {
			_, _ = io.WriteString(c, s)
			_ = c.Close()
		}}
	}
	first := &notes{told: make(chan string, 64)}
	d := NewDialer()
	run(t, NewUplink(UplinkConfig{Doors: name("first"), Logger: slog.New(first), Dial: func(ctx context.Context) (net.Conn, error) {
		return d.Dial(ctx, a.uplink())
	}}).Run)
	<-up
	a.agent(t, name("second"))
	<-up
	for text := range first.told {
		if strings.Contains(text, "another agent has come after this one") {
			break
		}
	}
	for range 3 {
		got, err := io.ReadAll(a.stream(t))
		if err != nil || string(got) != "second" {
			t.Errorf("the link is of %q, %v", got, err)
		}
	}
	a.cut.all() // both dial again, and the second still has it
	<-up
	if got, err := io.ReadAll(a.stream(t)); err != nil || string(got) != "second" {
		t.Errorf("after a cut the link is of %q, %v", got, err)
	}
}

// An agent whose network was cut dials again while the service still takes the old connection for a link: it is the
// same agent, however often, and the new connection counts.
func TestSameAgentAfterAPartition(t *testing.T) {
	up := make(chan bool, 16)
	a := newRemoteSite(t, func(_ string, is bool) { up <- is })
	d := NewDialer()
	var old net.Conn
	for n := range 3 {
		c, err := d.Dial(t.Context(), a.uplink())
		if err == nil {
			err = greet(c)
		}
		if err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if is := <-up; !is {
			t.Errorf("connection %d: the link went down", n)
		}
		if old != nil {
			if _, err := io.Copy(io.Discard, old); err == nil {
				t.Error("the old connection ended as if all had been read")
			}
		}
		old = c
	}
}

// notes are what is logged.
type notes struct{ told chan string }

func (n *notes) Enabled(context.Context, slog.Level) bool { return true }
func (n *notes) WithAttrs([]slog.Attr) slog.Handler       { return n }
func (n *notes) WithGroup(string) slog.Handler            { return n }
func (n *notes) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		select {
		case n.told <- r.Level.String() + " " + r.Message + ": " + a.Value.String():
		default:
		}
		return true
	})
	return nil
}

// Who is not expected, or not let in, is told why.
func TestRemoteRefused(t *testing.T) {
	a := newRemoteSite(t, nil)
	good := a.uplink()
	dial := func(change func(*control.Uplink)) error {
		u := good
		change(&u)
		c, err := NewDialer().Dial(t.Context(), u)
		if err == nil {
			err = errors.Join(greet(c), c.Close())
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("the credential is in an error: %v", err)
		}
		return err
	}
	if err := dial(func(*control.Uplink) {}); err != nil {
		t.Fatalf("the sound one of this test: %v", err)
	}
	for _, tt := range []struct {
		name   string
		change func(*control.Uplink)
		kind   errs.Kind
		want   string
	}{
		{"a foreign credential", func(u *control.Uplink) { u.Token = "x" }, errs.Forbidden, "no active workload"},
		{"none", func(u *control.Uplink) { u.Token = "" }, errs.Forbidden, "no active workload"},
		{"in the clear", func(u *control.Uplink) { u.URL = "ws://slipway.example.org/link" }, errs.Invalid, "must not be read on the way"},
		{"in the clear, to a name like an address", func(u *control.Uplink) { u.URL = "ws://127.0.0.1.example.org/link" }, errs.Invalid, "must not be read on the way"},
		{"another scheme", func(u *control.Uplink) { u.URL = "ftp://127.0.0.1/link" }, errs.Invalid, "wss://"},
		{"no address", func(u *control.Uplink) { u.URL = "" }, errs.Invalid, "wss://"},
		{"a CA that is none", func(u *control.Uplink) { u.CA = "x" }, errs.Invalid, "uplink.ca_file"},
	} {
		if err := dial(tt.change); !errs.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	a.links.Close(a.id)
	if err := dial(func(*control.Uplink) {}); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "not expected yet") {
		t.Errorf("nobody expects it: %v", err)
	}
}

// An agent is expected at one place, here or on another host.
func TestExpect(t *testing.T) {
	p := newPair(t, nil)
	if err := p.links.Expect(p.id); !errs.Is(err, errs.Conflict) {
		t.Errorf("expect from another host what has a socket: %v", err)
	}
	for range 2 {
		if err := p.links.Expect("s-far"); err != nil {
			t.Error(err)
		}
	}
	if err := p.links.Open("s-far", p.socket+"2", 0); !errs.Is(err, errs.Conflict) {
		t.Errorf("a socket for who comes from another host: %v", err)
	}
	if err := p.links.Upgrade(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), p.id); !errs.Is(err, errs.Unavailable) {
		t.Errorf("let in from another host what has a socket: %v", err)
	}
	odd := httptest.NewRequest(http.MethodGet, "/", nil)
	odd.Header.Set(AgentHeader, strings.Repeat("x", agentName+1))
	if err := p.links.Upgrade(httptest.NewRecorder(), odd, "s-far"); !errs.Is(err, errs.Invalid) {
		t.Errorf("an agent with a long name: %v", err)
	}
	p.links.Close("s-far")
	p.stop()
	if err := p.links.Expect("s-far"); !errs.Is(err, errs.Unavailable) {
		t.Errorf("expect at the end: %v", err)
	}
}

// An agent that is closed while it is connected loses its link, and one that is being greeted too.
func TestRemoteClose(t *testing.T) {
	a := newRemoteSite(t, nil)
	silent := a.knock(t)
	ended := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, silent); ended <- err }()
	a.links.Close(a.id)
	<-ended
}

// knock makes the websocket and leaves the rest to the test.
func (a *remoteSite) knock(t *testing.T) net.Conn {
	t.Helper()
	c, err := NewDialer().Dial(t.Context(), a.uplink())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Connections of one workload that say nothing keep its own agent out for a while, and nobody else.
func TestSilentConnections(t *testing.T) {
	a := newRemoteSite(t, nil)
	other := newRemoteSite(t, nil)
	for range greetedAtOnce {
		a.knock(t)
	}
	_, err := NewDialer().Dial(t.Context(), a.uplink())
	if !errs.Is(err, errs.OverQuota) {
		t.Errorf("one more: %v", err)
	}
	other.agent(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
	roundTrip(t, other.stream(t))
	a.cut.all()
	a.agent(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
	roundTrip(t, a.stream(t))
}

// Whatever a peer with a sound credential sends, its link ends, the next one is served, and no frame is held in memory
// because it says that it is large.
func TestHostileFrames(t *testing.T) {
	for name, bytes := range map[string]string{
		"text":                   "\x81\x85\x00\x00\x00\x00hello",
		"not masked":             "\x82\x05hello",
		"a length of 2^62":       "\x82\xff\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("x", 1<<20),
		"a negative length":      "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00x",
		"a continuation of none": "\x80\x81\x00\x00\x00\x00x",
		"reserved bits":          "\xf2\x81\x00\x00\x00\x00x",
		"an unknown kind":        "\x8b\x81\x00\x00\x00\x00x",
		"a long ping":            "\x89\xfe\x01\x00\x00\x00\x00\x00" + strings.Repeat("x", 256),
		"a close":                "\x88\x82\x00\x00\x00\x00\x03\xe8",
		"no websocket":           strings.Repeat("GET / HTTP/1.1\r\n\r\n", 9),
	} {
		t.Run(name, func(t *testing.T) {
			a := newRemoteSite(t, nil)
			c := a.knock(t).(*wire)
			if err := greet(c); err != nil {
				t.Fatal(err)
			}
			a.wait(t)
			_, _ = io.WriteString(c.out.to, bytes)
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
			a.agent(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
			roundTrip(t, a.stream(t))
		})
	}
}

// Pings of the websocket are answered, as proxies in between may want, and do nothing else.
func TestWebsocketPings(t *testing.T) {
	a := newRemoteSite(t, nil)
	a.agent(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
	a.wait(t)
	pongs := make(chan string, 1)
	h := &handshake{pool: newPool(), transport: a.server.Client().Transport.(*http.Transport).Clone()}
	h.transport.DialContext = h.dial
	ws, _, err := websocket.Dial(t.Context(), a.uplink().URL, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: h}, HTTPHeader: http.Header{"Authorization": {"Bearer " + token}},
		OnPongReceived: func(_ context.Context, b []byte) { pongs <- string(b) },
	})
	if err != nil {
		t.Fatal(err)
	}
	c := newWire(ws, h.out, h.raw)
	defer c.Close()
	if err := greet(c); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	if err := ws.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-pongs; got == "" {
		t.Error("an empty pong")
	}
}
