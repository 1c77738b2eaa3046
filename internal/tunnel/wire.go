package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// wire is a websocket as a connection: a message is what was written at once, and of messages the bytes alone count. It
// has no limit for a message's length, because none is ever held in memory as a whole.
type wire struct {
	ws  *websocket.Conn
	out *burst
	raw net.Conn // below TLS; what is done to it does not wait for a peer that reads nothing

	rest  io.Reader   // of the message that is being read
	spoke atomic.Bool // the peer has, since heard was asked last
}

func newWire(ws *websocket.Conn, out *burst, raw net.Conn) *wire {
	ws.SetReadLimit(-1)
	return &wire{ws: ws, out: out, raw: raw}
}

// Read reads what the peer sent.
func (w *wire) Read(b []byte) (int, error) {
	for {
		if w.rest == nil {
			kind, r, err := w.ws.Reader(context.Background())
			if err != nil {
				return 0, err
			}
			if kind != websocket.MessageBinary {
				return 0, errors.New("the peer sends text, which the link has not")
			}
			w.rest = r
		}
		n, err := w.rest.Read(b)
		if errors.Is(err, io.EOF) {
			w.rest, err = nil, nil
		}
		if n > 0 {
			w.spoke.Store(true)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// heard reports whether anything has come since it was asked last.
func (w *wire) heard() bool { return w.spoke.Swap(false) }

// Write sends b.
func (w *wire) Write(b []byte) (int, error) {
	return len(b), w.writeAll(b)
}

// writeAll sends pieces one behind the other, each a message of its own, in as few and as large writes as there can be:
// each becomes a record of TLS and a system call.
func (w *wire) writeAll(pieces ...[]byte) error {
	w.out.begin()
	var err error
	for _, b := range pieces {
		if err == nil {
			err = w.ws.Write(context.Background(), websocket.MessageBinary, b)
		}
	}
	return errors.Join(err, w.out.end())
}

// Close cuts the connection without a word: the peer's streams end with an error, as they must.
func (w *wire) Close() error {
	err := w.raw.Close()
	_ = w.ws.CloseNow() // fails, because the connection is closed; it frees what is above that
	return err
}

// LocalAddr returns this side's address.
func (w *wire) LocalAddr() net.Addr { return w.raw.LocalAddr() }

// RemoteAddr returns the peer's address.
func (w *wire) RemoteAddr() net.Addr { return w.raw.RemoteAddr() }

// SetDeadline bounds reading and writing. A connection whose deadline has passed is of no more use.
func (w *wire) SetDeadline(t time.Time) error { return w.raw.SetDeadline(t) }

// SetReadDeadline bounds Read.
func (w *wire) SetReadDeadline(t time.Time) error { return w.raw.SetReadDeadline(t) }

// SetWriteDeadline bounds Write.
func (w *wire) SetWriteDeadline(t time.Time) error { return w.raw.SetWriteDeadline(t) }

// burstSize is how much is gathered: two full records of TLS. The library alone writes 4 KiB at a time, which is half
// as fast; from 16 KiB on nothing can be measured any more (BenchmarkBulkRemote).
const burstSize = 32 << 10

// burst gathers what is written between begin and end. Outside of it, as when the library answers a ping, it lets all
// through. It holds its buffer only for that long: most links are idle.
type burst struct {
	to   io.Writer
	pool *sync.Pool // of *[]byte, each with room for burstSize

	mu      sync.Mutex
	holding bool
	held    *[]byte
}

func (b *burst) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holding = true
}

// Write keeps p back while there is room.
func (b *burst) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.holding || b.held == nil && len(p) >= burstSize {
		return b.to.Write(p)
	}
	if b.held == nil {
		b.held = b.pool.Get().(*[]byte)
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), burstSize-len(*b.held))
		*b.held = append(*b.held, rest[:n]...)
		rest = rest[n:]
		if len(*b.held) == burstSize {
			if err := b.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// end sends what is held.
func (b *burst) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holding = false
	if b.held == nil {
		return nil
	}
	err := b.flush()
	b.pool.Put(b.held)
	b.held = nil
	return err
}

func (b *burst) flush() error {
	if len(*b.held) == 0 {
		return nil
	}
	_, err := b.to.Write(*b.held)
	*b.held = (*b.held)[:0]
	return err
}
