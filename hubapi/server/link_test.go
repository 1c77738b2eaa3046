package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/internal/tunnel"
	"slipway/spawner"
)

// remoteSession is a server with a session on another host: alice's, whose agent dials LinkPath.
type remoteSession struct {
	*harness
	links *tunnel.Links

	mu    sync.Mutex
	conns []net.Conn // of the agent
}

const remoteID = "s-far"

func newRemoteSession(t *testing.T, app http.HandlerFunc) *remoteSession {
	t.Helper()
	f := &remoteSession{links: tunnel.New(tunnel.Config{Logger: slog.New(slog.DiscardHandler)})}
	if err := f.links.Expect(remoteID); err != nil {
		t.Fatal(err)
	}
	background(t, f.links.Run)
	f.harness = start(t, newFake(lab(remoteID, "alice", "/user/alice/")), func(cfg *Config) {
		cfg.Link = func(w http.ResponseWriter, r *http.Request) error {
			if r.Header.Get("Authorization") != "Bearer job-credential" {
				return errs.New(errs.Forbidden, "the credential is of no active job or session")
			}
			return f.links.Upgrade(w, r, remoteID)
		}
		cfg.Dial = func(ctx context.Context, id spawner.ID) (net.Conn, error) {
			wait, cancel := context.WithTimeout(ctx, testenv.Hang)
			defer cancel()
			return f.links.DialWhenUp(wait, string(id), tunnel.DoorApp)
		}
	})
	front := httptest.NewServer(app)
	t.Cleanup(front.Close)
	d := tunnel.NewDialer()
	u := tunnel.NewUplink(tunnel.UplinkConfig{Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context) (net.Conn, error) {
			c, err := d.Dial(ctx, f.uplink("job-credential"))
			f.mu.Lock()
			defer f.mu.Unlock()
			f.conns = append(f.conns, c)
			return c, err
		},
		Doors: map[tunnel.Door]func(context.Context, net.Conn){tunnel.DoorApp: func(_ context.Context, c net.Conn) {
			to, err := net.Dial("tcp", front.Listener.Addr().String())
			if err == nil {
				go func() { _, _ = io.Copy(to, c); _ = to.Close() }()
				_, _ = io.Copy(c, to)
			}
			_ = c.Close()
		}},
	})
	background(t, u.Run)
	return f
}

// background runs f until the test ends.
func background(t *testing.T, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = f(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
}

func (f *remoteSession) uplink(token string) control.Uplink {
	return control.Uplink{URL: strings.Replace(f.front.URL, "http", "ws", 1) + LinkPath, Token: token}
}

// cut breaks the agent's connection.
func (f *remoteSession) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		if c != nil {
			_ = c.Close()
		}
	}
	f.conns = nil
}

func (f *remoteSession) get(t *testing.T, path string) *http.Response {
	t.Helper()
	res, err := http.Get(f.front.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestSessionOnAnotherHost: its visitors see no difference, but that a broken link breaks off what is under way,
// visibly, and that what comes after it waits for the next one.
func TestSessionOnAnotherHost(t *testing.T) {
	begun := make(chan struct{}, 1)
	f := newRemoteSession(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/endless") {
			fmt.Fprint(w, "here")
			return
		}
		begun <- struct{}{}
		for { // an answer of unknown length: only how the connection ends says whether all has come
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	for range 3 {
		res := f.get(t, "/user/alice/api")
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != "here" || res.Body.Close() != nil {
			t.Errorf("%q, %v", got, err)
		}
		res = f.get(t, "/user/alice/endless")
		if res.StatusCode != http.StatusOK {
			t.Fatalf("an answer that goes on for ever: %d", res.StatusCode)
		}
		<-begun
		if _, err := io.CopyN(io.Discard, res.Body, 4<<20); err != nil {
			t.Fatal(err)
		}
		f.cut()
		if n, err := io.Copy(io.Discard, res.Body); err == nil {
			t.Errorf("an answer that was cut off ended as a whole one, after %d bytes more", n)
		}
		_ = res.Body.Close()
	}
}

// TestLinkRoute: what is refused there has the API's errors, and the log has no credential.
func TestLinkRoute(t *testing.T) {
	f := newRemoteSession(t, func(http.ResponseWriter, *http.Request) {})
	_, err := tunnel.NewDialer().Dial(t.Context(), f.uplink("geheim"))
	if !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "no active job or session") {
		t.Errorf("a foreign credential: %v", err)
	}
	res := f.get(t, LinkPath)
	if _ = res.Body.Close(); res.StatusCode != http.StatusForbidden {
		t.Errorf("without one: %d", res.StatusCode)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.front.URL+LinkPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer job-credential")
	res, err = http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("no websocket: %d", res.StatusCode)
	}
	if logged := f.logged.String(); strings.Contains(logged, "geheim") || strings.Contains(logged, "job-credential") {
		t.Error("a credential is in the log")
	}
}
