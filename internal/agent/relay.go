package agent

import (
	"context"
	"io"
	"net"
	"sync"

	"slipway/internal/tunnel"
)

// relay carries each connection to l to a stream of the service's at door, until ctx ends.
func (a *agent) relay(ctx context.Context, l net.Listener, door tunnel.Door) {
	var open sync.WaitGroup
	defer open.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			_ = l.Close()
			return
		}
		open.Go(func() { a.toService(ctx, c, door) })
	}
}

func (a *agent) toService(ctx context.Context, c net.Conn, door tunnel.Door) {
	wait, cancel := context.WithTimeout(ctx, relayWait)
	s, err := a.uplink.Open(wait, door)
	cancel()
	if err != nil {
		a.log.Warn(
			"a connection from inside was dropped: the service is not reached", "door", string(door), "error", err,
		)
		_ = c.Close()
		return
	}
	pump(ctx, c, s)
}

// toApp carries a stream of the service's to the app's port, or to the gate before it.
func (a *agent) toApp(ctx context.Context, s net.Conn) {
	if a.code.isApp() {
		a.code.doors.put(ctx, s)
		return
	}
	port := a.app.listening()
	if port == 0 {
		_ = s.Close()
		return
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", loopback(port))
	if err != nil {
		_ = s.Close()
		return
	}
	pump(ctx, c, s)
}

// pump carries bytes both ways until both sides have ended, one has failed, the service has closed the stream, or ctx
// ends. The end of one direction is passed on alone.
func pump(ctx context.Context, local, stream net.Conn) {
	end := func() { _, _ = local.Close(), stream.Close() }
	defer end()
	defer context.AfterFunc(ctx, end)()
	if s, ok := stream.(interface{ AfterLeft(func()) }); ok {
		s.AfterLeft(end)
	}
	var both sync.WaitGroup
	one := func(to, from net.Conn) {
		if _, err := io.Copy(to, from); err != nil || closeWrite(to) != nil {
			end()
		}
	}
	both.Go(func() { one(local, stream) })
	one(stream, local)
	both.Wait()
}

func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// streams gives the streams of a door to an HTTP server.
type streams struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newStreams() *streams { return &streams{conns: make(chan net.Conn), done: make(chan struct{})} }

func (s *streams) put(ctx context.Context, c net.Conn) {
	select {
	case s.conns <- c:
	case <-s.done:
		_ = c.Close()
	case <-ctx.Done():
		_ = c.Close()
	}
}

// Accept returns the next stream.
func (s *streams) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return.
func (s *streams) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

// Addr names the door.
func (s *streams) Addr() net.Addr { return &net.UnixAddr{Name: "control", Net: "slipway"} }
