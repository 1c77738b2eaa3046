package sshgate

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"runtime"
)

// throng is a listener to which many come at once, each from an address of its own. It counts those that are open.
type throng struct {
	all  int
	done chan struct{}

	mu         sync.Mutex
	came, open int
	most       int
}

func (l *throng) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.came == l.all {
		l.mu.Unlock()
		<-l.done
		l.mu.Lock()
		return nil, net.ErrClosed
	}
	l.came++
	l.open++
	l.most = max(l.most, l.open)
	return &silent{of: l, number: l.came, closed: make(chan struct{})}, nil
}

func (l *throng) Close() error {
	close(l.done)
	return nil
}

func (l *throng) Addr() net.Addr { return nil }

// silent is a connection whose client says nothing, and which takes a while to close.
type silent struct {
	net.Conn
	of     *throng
	number int
	once   sync.Once
	closed chan struct{}
}

func (c *silent) Read([]byte) (int, error) {
	<-c.closed
	return 0, net.ErrClosed
}

func (c *silent) Close() error {
	c.once.Do(func() {
		for range 100 {
			runtime.Gosched()
		}
		c.of.mu.Lock()
		c.of.open--
		c.of.mu.Unlock()
		close(c.closed)
	})
	return nil
}

func (c *silent) Write(p []byte) (int, error)      { return len(p), nil }
func (c *silent) SetDeadline(time.Time) error      { return nil }
func (c *silent) SetReadDeadline(time.Time) error  { return nil }
func (c *silent) SetWriteDeadline(time.Time) error { return nil }
func (c *silent) LocalAddr() net.Addr              { return c.RemoteAddr() }
func (c *silent) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(10, 1, byte(c.number>>8), byte(c.number)), Port: 1}
}

// TestArriving: however many come at once, those on their way in or out are few, as those that are in.
func TestArriving(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	l := &throng{all: 5000, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.gate.Run(ctx, l)
	}()
	eventually(t, "all were accepted", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.came == l.all && l.open == mostUnproved
	})
	if most := mostUnproved + mostArriving + 1; l.most > most { // one more that waits to be on its way
		t.Errorf("%d were open at once, and at most %d should be", l.most, most)
	}
	h.alice("alice")
	cancel()
	h.stop()
	<-ended
	if l.open != 0 {
		t.Errorf("%d are open", l.open)
	}
}
