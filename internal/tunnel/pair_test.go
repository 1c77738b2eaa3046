package tunnel

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// pair is a service and one agent, joined by a unix socket.
type pair struct {
	id, socket string
	links      *Links
	uplink     *Uplink
	stop       func() // ends the service
	dress      func(net.Conn) net.Conn
}

// carriers are what bears the streams that the service opens, by how an agent of this host dials: one that does not
// know its connection for a unix socket is as one of an earlier version.
var carriers = map[string]func(net.Conn) net.Conn{
	"sockets":     func(c net.Conn) net.Conn { return c },
	"multiplexer": func(c net.Conn) net.Conn { return struct{ net.Conn }{c} },
}

// overEach runs a test with each carrier.
func overEach(t *testing.T, test func(t *testing.T, carrier string)) {
	for name := range carriers {
		t.Run(name, func(t *testing.T) { test(t, name) })
	}
}

func newPair(t testing.TB, doors map[Door]func(context.Context, net.Conn)) *pair {
	t.Helper()
	return newPairOver(t, "sockets", doors)
}

func newPairOver(t testing.TB, carrier string, doors map[Door]func(context.Context, net.Conn)) *pair {
	t.Helper()
	p := &pair{id: "s-0123456789abcdef", socket: filepath.Join(socketDir(t), "service.sock"), dress: carriers[carrier]}
	p.serve(t, nil)
	p.uplink = NewUplink(UplinkConfig{Dial: p.dial, Doors: doors, Logger: slog.New(slog.DiscardHandler)})
	run(t, p.uplink.Run)
	p.wait(t)
	return p
}

// serve starts a service on the pair's socket.
func (p *pair) serve(t testing.TB, changed func(string, bool)) {
	t.Helper()
	p.links = New(Config{Logger: slog.New(slog.DiscardHandler), Changed: changed})
	if err := p.links.Open(p.id, p.socket, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	p.stop = run(t, p.links.Run)
}

func (p *pair) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", p.socket)
	if err == nil && p.dress != nil {
		c = p.dress(c)
	}
	return c, err
}

func (p *pair) wait(t testing.TB) {
	t.Helper()
	if err := p.links.Wait(t.Context(), p.id); err != nil {
		t.Fatal(err)
	}
}

// run runs f until the test ends or stop is called, and waits for it.
func run(t testing.TB, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = f(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}
