package tunnel

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

const token = "the-token"

// remoteSite is a service that agents reach by TLS, and what cuts them off.
type remoteSite struct {
	id     string
	links  *Links
	serves atomic.Pointer[Links] // the same, for the server
	server *httptest.Server
	cut    *cutter
	stop   func() // ends the links
}

func newRemoteSite(t testing.TB, changed func(string, bool), change ...func(*http.Server)) *remoteSite {
	t.Helper()
	a := &remoteSite{id: "s-0123456789abcdef", cut: &cutter{}}
	a.serve(t, changed)
	a.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := error(errs.New(errs.Forbidden, "the credential is of no active workload"))
		if r.Header.Get("Authorization") == "Bearer "+token {
			err = a.serves.Load().Upgrade(w, r, a.id)
		}
		if err != nil {
			row := errs.RowOf(errs.KindOf(err))
			w.WriteHeader(row.Status)
			_, _ = io.WriteString(w, `{"error":{"code":"`+row.Code+`","message":"`+errs.Brief(err)+`"}}`)
		}
	}))
	a.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	a.cut.Listener, a.server.Listener = a.server.Listener, a.cut
	c := certificate(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), net.ParseIP("127.0.0.1"))
	a.server.TLS = &tls.Config{Certificates: []tls.Certificate{c}}
	for _, f := range change {
		f(a.server.Config)
	}
	a.server.StartTLS()
	t.Cleanup(func() { a.cut.all(); a.stop(); a.server.Close() })
	return a
}

// serve starts the service's side of the links anew.
func (a *remoteSite) serve(t testing.TB, changed func(string, bool)) {
	t.Helper()
	a.links = New(Config{Logger: slog.New(slog.DiscardHandler), Changed: changed})
	if err := a.links.Expect(a.id); err != nil {
		t.Fatal(err)
	}
	a.serves.Store(a.links)
	a.stop = run(t, a.links.Run)
}

func (a *remoteSite) uplink() control.Uplink {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw})
	return control.Uplink{URL: "wss://" + a.server.Listener.Addr().String() + "/link", Token: token, CA: string(ca)}
}

// agent starts one.
func (a *remoteSite) agent(t testing.TB, doors map[Door]func(context.Context, net.Conn)) *Uplink {
	t.Helper()
	d := NewDialer()
	u := NewUplink(UplinkConfig{Doors: doors, Logger: slog.New(slog.DiscardHandler), Dial: func(ctx context.Context) (net.Conn, error) {
		return d.Dial(ctx, a.uplink())
	}})
	run(t, u.Run)
	return u
}

func (a *remoteSite) wait(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.links.Wait(ctx, a.id); err != nil {
		t.Fatal(err)
	}
}

// cutter is a listener whose connections can be cut as a broken network cuts them.
type cutter struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	made  atomic.Int64
}

func (c *cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conns = append(c.conns, conn)
		c.made.Add(1)
	}
	return conn, err
}

func (c *cutter) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// TestRemoteStreams: streams both ways, of sizes around all buffers, come through unchanged.
func TestRemoteStreams(t *testing.T) {
	a := newRemoteSite(t, nil)
	u := a.agent(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
	l := a.links.Streams(DoorAPI)
	run(t, func(ctx context.Context) error {
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			echo(ctx, c)
		}
	})
	t.Cleanup(func() { _ = l.Close() })
	a.wait(t)
	for _, size := range []int{0, 1, 125, 126, 4095, 4096, 4097, burstSize - 14, burstSize, burstSize + 1, 1 << 16, 3<<20 + 7} {
		want := make([]byte, size)
		_, _ = rand.Read(want)
		for from, open := range map[string]func() (net.Conn, error){
			"the service": func() (net.Conn, error) { return a.links.Dial(t.Context(), a.id, DoorApp) },
			"the agent":   func() (net.Conn, error) { return u.Open(t.Context(), DoorAPI) },
		} {
			c, err := open()
			if err != nil {
				t.Fatal(err)
			}
			var sending sync.WaitGroup
			sending.Go(func() {
				_, _ = c.Write(want)
				_ = c.(*Conn).CloseWrite()
			})
			got, err := io.ReadAll(c)
			sending.Wait()
			_ = c.Close()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes from %s: %d came back, %v", size, from, len(got), err)
			}
		}
	}
}
