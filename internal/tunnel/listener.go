package tunnel

import (
	"net"
	"sync"
)

// listener gives the streams of one door to a server.
type listener struct {
	door  Door
	conns chan *Conn
	once  sync.Once
	done  chan struct{}
	ended <-chan struct{} // the Links' Run
}

// Accept returns the next stream.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr names the door.
func (l *listener) Addr() net.Addr { return doorAddr(l.door) }

// offer waits for the server to take c. It reports false when the server or c's link has ended.
func (l *listener) offer(c *Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.done:
		return false
	case <-c.mux.session.CloseChan():
		return false
	}
}

type doorAddr Door

// Network says what kind of address it is.
func (doorAddr) Network() string { return "slipway" }

// String names the door.
func (d doorAddr) String() string { return "door " + string(d) }
