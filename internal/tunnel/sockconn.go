package tunnel

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// socketConn is a stream that has a socket of its own. What goes through it meets no other, and the kernel's own means move it. That a
// direction has ended is said on the line first: a socket whose process was killed ends in the same way as one that was closed.
type socketConn struct {
	raw    *net.UnixConn
	owner  *sockets
	number uint64
	told   chan struct{} // closed when the peer has said that it has ended, or the stream is lost, or closed here

	mu     sync.Mutex
	over   bool // told is closed
	cut    bool // the stream is lost
	half   bool // this side has said that it has ended
	closed bool
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
func (c *socketConn) WriteTo(w io.Writer) (int64, error) {
	t, ok := w.(*net.TCPConn)
	if !ok {
		return copyAll(w, c)
	}
	n, err := t.ReadFrom(c.raw) // within the kernel
	if err == nil {
		err = c.explain(io.EOF)
	}
	if err == io.EOF {
		return n, nil
	}
	return n, c.why(err)
}

// ReadFrom sends what r gives.
func (c *socketConn) ReadFrom(r io.Reader) (int64, error) {
	t, ok := r.(*net.TCPConn)
	if !ok {
		return copyAll(c, r)
	}
	n, err := t.WriteTo(c.raw) // within the kernel
	if err != nil {
		err = c.why(err)
	}
	return n, err
}

// explain says what it means that nothing more can be read. The peer's word that it ends is on its way before its end is, so who waits for
// it waits for a peer that breaks the rules, or that was killed a moment ago.
func (c *socketConn) explain(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) { // a reset: it has closed, and left something unread
		return c.why(err)
	}
	late := time.AfterFunc(c.owner.patience, c.owner.close)
	defer late.Stop()
	<-c.told
	return c.why(io.EOF)
}

// why turns an error into those that net promises.
func (c *socketConn) why(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case c.cut:
		return lost()
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
func (c *socketConn) lose() {
	c.mu.Lock()
	c.cut = true
	c.mu.Unlock()
	c.tell()
	_ = c.raw.Close()
	c.owner.forget(c)
}

// CloseWrite tells the peer that nothing follows; reading goes on.
func (c *socketConn) CloseWrite() error {
	c.sayEnd()
	return c.raw.CloseWrite()
}

// sayEnd says, once, that this side has ended.
func (c *socketConn) sayEnd() {
	c.mu.Lock()
	said := c.half || c.cut
	c.half = true
	c.mu.Unlock()
	if !said {
		_ = c.owner.send(message{kind: lineEnd, number: c.number}, nil)
	}
}

// Close ends the stream. What the peer still sends is not read, and its writes fail.
func (c *socketConn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	_ = c.raw.SetDeadline(time.Unix(1, 0)) // who reads or writes returns, also where the word cannot be said at once
	c.sayEnd()
	_ = c.raw.Close()
	c.tell()
	c.owner.forget(c)
	return nil
}

// SetDeadline sets both deadlines.
func (c *socketConn) SetDeadline(t time.Time) error { return c.raw.SetDeadline(t) }

// SetReadDeadline bounds Read.
func (c *socketConn) SetReadDeadline(t time.Time) error { return c.raw.SetReadDeadline(t) }

// SetWriteDeadline bounds Write.
func (c *socketConn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }

// LocalAddr gives the link's address here.
func (c *socketConn) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// RemoteAddr gives the link's address there.
func (c *socketConn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }
