package tunnel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// socketConn is a stream that has a socket of its own, so that what goes through it meets no other. That a direction
// has ended is said on the line too: a socket whose process was killed ends in the same way as one that was closed.
type socketConn struct {
	farewell
	raw    *net.UnixConn
	owner  *sockets
	number uint64
	told   chan struct{} // closed when the peer has said that it has ended, or the stream is lost, or closed here

	mu     sync.Mutex
	over   bool  // told is closed
	cut    error // why the stream is lost; nil: it is not
	half   bool  // this side has said that it has ended
	closed bool
	until  time.Time     // the deadline of Read
	moved  chan struct{} // closed when until changes; nil: nobody waits for told
}

// Read reads what the peer sent.
func (c *socketConn) Read(b []byte) (int, error) {
	n, err := c.raw.Read(b)
	if err == nil {
		return n, nil
	}
	return n, c.explain(err)
}

// Write sends b.
func (c *socketConn) Write(b []byte) (int, error) {
	n, err := c.raw.Write(b)
	if err == nil {
		return n, nil
	}
	return n, c.why(err)
}

// WriteTo copies to w what the peer sends.
func (c *socketConn) WriteTo(w io.Writer) (int64, error) { return copyAll(w, c) }

// ReadFrom sends what r gives.
func (c *socketConn) ReadFrom(r io.Reader) (int64, error) { return copyAll(c, r) }

// explain says what it means that nothing more can be read.
func (c *socketConn) explain(err error) error {
	// a reset: it has closed, and left something unread
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		return c.why(err)
	}
	if err = c.why(c.hear()); err == io.EOF {
		c.note(false, true)
	}
	return err
}

// hear waits, no longer than Read may, for the peer's word that it has ended, and gives io.EOF then. The word comes
// with the end, so who waits for long has a peer that breaks the rules, or that was killed a moment ago.
func (c *socketConn) hear() error {
	late := time.AfterFunc(c.owner.patience, c.owner.close)
	defer late.Stop()
	for {
		until, moved := c.deadline()
		select {
		case <-c.told:
			return io.EOF
		case <-until:
			return os.ErrDeadlineExceeded
		case <-moved:
		}
	}
}

// deadline returns what is closed when Read may wait no more, and when that has changed.
func (c *socketConn) deadline() (until <-chan time.Time, moved <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moved == nil {
		c.moved = make(chan struct{})
	}
	if !c.until.IsZero() {
		until = time.After(time.Until(c.until))
	}
	return until, c.moved
}

// why turns an error into those that net promises.
func (c *socketConn) why(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case c.cut != nil:
		return c.cut
	}
	return err
}

// tell notes that the peer has said that it ends, or that nothing more will be heard of it.
func (c *socketConn) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over = true
		close(c.told)
	}
}

// lose cuts the stream.
func (c *socketConn) lose(why error) {
	c.mu.Lock()
	c.cut = why
	c.mu.Unlock()
	c.end()
}

// end lets go of all that the stream has here.
func (c *socketConn) end() {
	c.tell()
	c.farewell.drop()
	_ = c.raw.Close()
	c.owner.forget(c)
}

// CloseWrite tells the peer that nothing follows; reading goes on.
func (c *socketConn) CloseWrite() error {
	c.mu.Lock()
	said := c.half || c.closed || c.cut != nil
	c.half = true
	c.mu.Unlock()
	if !said {
		if err := c.owner.send(message{kind: lineEnd, number: c.number}, nil); err != nil {
			return err
		}
	}
	return c.raw.CloseWrite()
}

// Close ends the stream. What the peer still sends is not read, and its writes fail. It waits for nothing.
func (c *socketConn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	lost := c.cut != nil
	c.mu.Unlock()
	if !lost {
		c.owner.unsaid.add(message{lineEnd, c.number, wholly})
	}
	c.end()
	return nil
}

// SetDeadline sets both deadlines.
func (c *socketConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline bounds Read.
func (c *socketConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	if c.moved != nil {
		close(c.moved)
		c.moved = nil
	}
	return c.raw.SetReadDeadline(t)
}

// SetWriteDeadline bounds Write.
func (c *socketConn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }

// LocalAddr returns the link's address here.
func (c *socketConn) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// RemoteAddr returns the link's address there.
func (c *socketConn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }
