package tunnel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
)

func echo(_ context.Context, c net.Conn) {
	_, _ = io.Copy(c, c)
	_ = c.Close()
}

func TestDialReachesTheDoor(t *testing.T) {
	overEach(t, func(t *testing.T, carrier string) {
		p := newPairOver(t, carrier, map[Door]func(context.Context, net.Conn){
			DoorApp:     echo,
			DoorControl: func(_ context.Context, c net.Conn) { _, _ = io.WriteString(c, "control"); _ = c.Close() },
		})
		for door, want := range map[Door]string{DoorApp: "hello", DoorControl: "control", DoorHub: ""} {
			c, err := p.links.Dial(t.Context(), p.id, door)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, "hello")
			if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(c)
			if string(got) != want {
				t.Errorf("door %c: got %q, want %q", door, got, want)
			}
			_ = c.Close()
		}
	})
}

// A server on the service's side knows which workload calls.
func TestStreamsNameTheWorkload(t *testing.T) {
	p := newPair(t, nil)
	type key struct{}
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Context().Value(key{}).(string))
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, key{}, c.(interface{ WorkloadID() string }).WorkloadID())
		},
	}
	l := p.links.Streams(DoorAPI)
	run(t, func(context.Context) error { return s.Serve(l) })
	t.Cleanup(func() { _ = s.Close() })
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return p.uplink.Open(ctx, DoorAPI)
	}}}
	for range 3 {
		res, err := client.Get("http://service/me")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(got) != p.id {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

// A service that was killed comes back: its socket's file is still there, the agent dials again.
func TestServiceRestart(t *testing.T) {
	overEach(t, func(t *testing.T, carrier string) {
		p := newPairOver(t, carrier, map[Door]func(context.Context, net.Conn){DoorApp: echo})
		old, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			t.Fatal(err)
		}
		p.stop()
		if _, err := io.ReadAll(old); err == nil {
			t.Error("a stream of the lost link ended as if all had been read")
		}
		if _, err := p.links.Dial(t.Context(), p.id, DoorApp); !errs.Is(err, errs.Unavailable) {
			t.Errorf("dial through a link that is down: %v", err)
		}
		if _, err := os.Lstat(p.socket); err != nil {
			t.Errorf("the socket should stay: %v", err)
		}
		waiting := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			c, err := p.uplink.Open(ctx, DoorAPI)
			if err == nil {
				_ = c.Close()
			}
			waiting <- err
		}()
		p.serve(t, nil)
		p.wait(t)
		if err := <-waiting; err != nil {
			t.Errorf("a stream that waited for the service: %v", err)
		}
		c, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, c)
	})
}

// An aborted download frees the sender: its writes fail and do not wait for a reader who is gone.
func TestCloseStopsTheSender(t *testing.T) {
	overEach(t, func(t *testing.T, carrier string) {
		sent := make(chan error, 1)
		p := newPairOver(t, carrier, map[Door]func(context.Context, net.Conn){DoorApp: func(_ context.Context, c net.Conn) {
			_, err := io.Copy(c, endless{})
			_ = c.Close()
			sent <- err
		}})
		c, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 3<<20)); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err == nil {
			t.Error("writing to a reader who is gone: no error")
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
	})
}

// A blocked Read returns when the stream is closed here, and when its deadline passes.
func TestReadIsWoken(t *testing.T) {
	overEach(t, func(t *testing.T, carrier string) {
		p := newPairOver(t, carrier, map[Door]func(context.Context, net.Conn){DoorApp: echo})
		c, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err = c.Read(make([]byte, 1))
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
			t.Errorf("read past its deadline: %v", err)
		}
		_ = c.SetReadDeadline(time.Time{})
		got := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			got <- err
		}()
		_ = c.Close()
		if err := <-got; !errors.Is(err, net.ErrClosed) {
			t.Errorf("read woken by close: %v", err)
		}
	})
}

// An agent that dials again replaces its link; what ran through the old one ends with an error.
func TestRedialReplaces(t *testing.T) {
	overEach(t, func(t *testing.T, carrier string) {
		p := newPairOver(t, carrier, map[Door]func(context.Context, net.Conn){DoorApp: echo})
		old, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, NewUplink(UplinkConfig{Dial: p.dial, Logger: p.uplink.cfg.Logger}).Run)
		if _, err := io.ReadAll(old); err == nil {
			t.Error("the old link's stream ended without an error")
		}
		stop()
	})
}

func TestOpenAndClose(t *testing.T) {
	p := newPair(t, nil)
	uid := os.Getuid()
	if err := p.links.Open(p.id, p.socket, uid); err != nil {
		t.Errorf("open again: %v", err)
	}
	if err := p.links.Open(p.id, p.socket+"2", uid); !errs.Is(err, errs.Conflict) {
		t.Errorf("open elsewhere: %v", err)
	}
	if err := p.links.Open("s-x", "/nonexistent/dir/sock", uid); err == nil {
		t.Error("open in a directory that is not there: no error")
	}
	if err := p.links.Open("s-x", "/tmp/"+strings.Repeat("x", 200), uid); !errs.Is(err, errs.Invalid) {
		t.Errorf("open with a long name: %v", err)
	}
	st, err := os.Lstat(p.socket)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", st, err)
	}
	p.links.Close(p.id)
	p.links.Close(p.id)
	if _, err := os.Lstat(p.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("socket after close: %v", err)
	}
	if p.links.Up(p.id) {
		t.Error("up after close")
	}
	if err := p.links.Wait(t.Context(), p.id); !errs.Is(err, errs.Unavailable) {
		t.Errorf("wait after close: %v", err)
	}
}

// TestDialBeforeTheLinkIsOpen: a service that has just begun is asked for a session before it has opened its link.
func TestDialBeforeTheLinkIsOpen(t *testing.T) {
	p := newPair(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
	p.stop()
	p.links = New(Config{Logger: slog.New(slog.DiscardHandler)})
	run(t, p.links.Run)
	dialed := make(chan error, 1)
	go func() {
		c, err := p.links.DialWhenUp(t.Context(), p.id, DoorApp)
		if err == nil {
			err = c.Close()
		}
		dialed <- err
	}()
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.links.DialWhenUp(short, p.id, DoorApp); !errs.Is(err, errs.Unavailable) {
		t.Errorf("nobody waits for longer than was asked: %v", err)
	}
	if err := p.links.Open("s-another", filepath.Join(socketDir(t), "s"), os.Getuid()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-dialed:
		t.Fatalf("dialed before there was a link: %v", err)
	default:
	}
	if err := p.links.Open(p.id, p.socket, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	if err := <-dialed; err != nil {
		t.Error(err)
	}
}

func roundTrip(t *testing.T, c net.Conn) {
	t.Helper()
	ping(t, c)
	_ = c.Close()
}

// ping has the other side echo a word.
func ping(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "ping"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "ping" {
		t.Fatalf("got %q, %v", b, err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }
