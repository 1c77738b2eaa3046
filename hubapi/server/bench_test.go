package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"slipway/hubapi"
	"slipway/hubapi/server/hubs"
	"slipway/internal/tunnel"
	"slipway/spawner"
)

const bulk = 256 << 20

// bulky sends much for /bulk, and little for all else.
func bulky(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/user/alice/bulk" {
		_, _ = io.WriteString(w, "ok")
		return
	}
	piece := make([]byte, 256<<10)
	for range bulk / len(piece) {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// BenchmarkProxy compares a server reached directly with the same through the session proxy and a real tunnel.
func BenchmarkProxy(b *testing.B) {
	app := httptest.NewServer(http.HandlerFunc(bulky))
	defer app.Close()
	links := tunnelTo(b, app.Listener.Addr().String())
	s := New(Config{Engine: newFake(lab("s-alice", "alice", "/user/alice/")), Logger: quiet(), Hubs: []hubs.Hub{{Name: "main", APIURL: &url.URL{}, Identify: fakeIdentify}},
		Dial: func(ctx context.Context, id spawner.ID) (net.Conn, error) {
			return links.Dial(ctx, string(id), tunnel.DoorApp)
		}})
	front := httptest.NewServer(s.Public())
	defer front.Close()
	for _, way := range []struct{ name, url string }{{"direct", app.URL}, {"proxied", front.URL}} {
		b.Run("bulk/"+way.name, func(b *testing.B) {
			b.SetBytes(bulk)
			for b.Loop() {
				fetchAll(b, way.url+"/user/alice/bulk")
			}
		})
		b.Run("requests/"+way.name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					fetchAll(b, way.url+"/user/alice/small")
				}
			})
		})
	}
}

// manyPoints is an engine with one scan that looks at it as the Manager does, without a copy.
type manyPoints struct {
	*fakeEngine
	points []spawner.Workload
}

func (m *manyPoints) Each(_ context.Context, _ spawner.Caller, _ string, each func(w *spawner.Workload)) error {
	for i := range m.points {
		each(&m.points[i])
	}
	return nil
}

func aLargeScan() *manyPoints {
	engine := &manyPoints{fakeEngine: newFake()}
	for n := range hubapi.PointLimit {
		engine.points = append(engine.points, point(n, []spawner.Phase{spawner.Pending, spawner.Running}[n%2], nil))
	}
	return engine
}

// BenchmarkManyPoints shows what a user with a scan of ten thousand points waits for.
func BenchmarkManyPoints(b *testing.B) {
	engine := aLargeScan()
	s := New(Config{Engine: engine, Hubs: []hubs.Hub{{Name: "main", APIURL: &url.URL{}, Identify: fakeIdentify}}, Logger: quiet()})
	for _, path := range []string{"/jobs?points=no", "/jobs?scan=scan-1", "/jobs?scan=scan-1&state=pending&limit=100", "/scans/scan-1"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				r, w := httptest.NewRequest("GET", hubapi.Base+path, nil), httptest.NewRecorder()
				r.Header.Set("Authorization", "token alice-token")
				if s.Public().ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}

func fetchAll(b *testing.B, url string) {
	resp, err := http.Get(url)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		b.Errorf("%s, %v", resp.Status, err)
	}
}

// tunnelTo starts a link whose agent passes the streams of the app's door on to addr, as the agent does.
func tunnelTo(b *testing.B, addr string) *tunnel.Links {
	b.Helper()
	dir, err := os.MkdirTemp("", "link") // short: a socket's path has little room
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s.sock")
	links := tunnel.New(tunnel.Config{Logger: quiet()})
	if err := links.Open("s-alice", socket, os.Getuid()); err != nil {
		b.Fatal(err)
	}
	var dialer net.Dialer
	uplink := tunnel.NewUplink(tunnel.UplinkConfig{
		Logger: quiet(),
		Dial:   func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "unix", socket) },
		Doors:  map[tunnel.Door]func(context.Context, net.Conn){tunnel.DoorApp: func(ctx context.Context, c net.Conn) { relay(ctx, c, addr) }},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var ends sync.WaitGroup
	ends.Go(func() { _ = links.Run(ctx) })
	ends.Go(func() { _ = uplink.Run(ctx) })
	b.Cleanup(func() { cancel(); ends.Wait() })
	if err := links.Wait(b.Context(), "s-alice"); err != nil {
		b.Fatal(err)
	}
	return links
}

func relay(ctx context.Context, c net.Conn, addr string) {
	var dialer net.Dialer
	app, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		_ = c.Close()
		return
	}
	go func() { _, _ = io.Copy(app, c); _ = app.Close() }()
	_, _ = c.(io.ReaderFrom).ReadFrom(app)
	_ = c.Close()
}
