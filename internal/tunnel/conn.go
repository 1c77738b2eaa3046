package tunnel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"

	"slipway/internal/errs"
)

// Conn is one stream of the multiplexer's. Unlike a bare yamux stream it behaves as a TCP connection does: Close ends
// both directions and wakes readers, CloseWrite ends one, and the loss of the link is an error and not an end of file.
type Conn struct {
	farewell
	stream *yamux.Stream
	mux    *mux
	id     string // the workload's

	mu      sync.Mutex
	closed  bool
	ended   bool // the peer has sent all it will send
	refused bool // the peer reads no more
}

// WorkloadID names the workload at the other end; empty on the agent's side.
func (c *Conn) WorkloadID() string { return c.id }

// Read reads what the peer sent.
func (c *Conn) Read(b []byte) (int, error) {
	if c.isClosed() {
		return 0, net.ErrClosed
	}
	n, err := c.stream.Read(b)
	if err == yamux.ErrTimeout && c.mux.over.Load() { // what came before the link's end is still there to be read
		n, err = c.stream.Read(b)
	}
	if c.mux.unread.read(c.stream.StreamID(), n) {
		c.stream.Shrink()
	}
	if err == nil {
		return n, nil
	}
	return n, c.explain(err)
}

// Write sends b.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.stream.Write(b)
	if err == nil {
		return n, nil
	}
	return n, c.explain(err)
}

// WriteTo copies to w what the peer sends.
func (c *Conn) WriteTo(w io.Writer) (int64, error) { return copyAll(w, c) }

// ReadFrom sends what r gives.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) { return copyAll(c, r) }

// copyAll copies with a buffer that grows while reads fill it: most streams are idle websockets, some are bulk.
func copyAll(w io.Writer, r io.Reader) (total int64, err error) {
	buf := make([]byte, copySmall)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			written, err := w.Write(buf[:n])
			total += int64(written)
			if err != nil {
				return total, err
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if n == len(buf) && n < copyLarge {
			buf = make([]byte, 4*len(buf))
		}
	}
}

// CloseWrite tells the peer that nothing follows; reading goes on.
func (c *Conn) CloseWrite() error { return c.stream.Close() }

// Close ends the stream. What the peer still sends is not read: it is told so, and its writes fail. It waits for
// nothing.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	ended := c.ended
	_ = c.stream.SetReadDeadline(time.Unix(1, 0))
	_ = c.stream.SetWriteDeadline(time.Unix(1, 0))
	c.mu.Unlock()
	c.farewell.drop()
	c.mux.leaving.add(parted{c, !ended})
	return nil
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// refuse makes writes fail: the peer will not read them.
func (c *Conn) refuse() {
	c.mu.Lock()
	c.refused = true
	_ = c.stream.SetWriteDeadline(time.Unix(1, 0))
	c.mu.Unlock()
	c.note(true, false)
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline bounds Read.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case c.mux.over.Load():
		return lost()
	}
	return c.stream.SetReadDeadline(t)
}

// SetWriteDeadline bounds Write.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.refused {
		return nil
	}
	return c.stream.SetWriteDeadline(t)
}

// LocalAddr returns the link's address here.
func (c *Conn) LocalAddr() net.Addr { return c.stream.LocalAddr() }

// RemoteAddr returns the link's address there.
func (c *Conn) RemoteAddr() net.Addr { return c.stream.RemoteAddr() }

// explain turns the multiplexer's errors into those that net promises.
func (c *Conn) explain(err error) error {
	if err = c.why(err); err == io.EOF {
		c.note(false, true)
	}
	return err
}

func (c *Conn) why(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case c.mux.over.Load() || c.mux.session.IsClosed():
		return lost()
	case errors.Is(err, io.EOF):
		c.ended = true
		return io.EOF
	case c.refused, errors.Is(err, yamux.ErrConnectionReset):
		return syscall.ECONNRESET
	case errors.Is(err, yamux.ErrTimeout):
		return os.ErrDeadlineExceeded
	case errors.Is(err, yamux.ErrStreamClosed):
		return syscall.EPIPE
	default:
		return err
	}
}

func lost() error { return errs.New(errs.Unavailable, "the link to the workload was lost") }
