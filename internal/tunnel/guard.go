package tunnel

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

const (
	headerSize = 12 // of a yamux frame: version, type, flags, stream, length
	typeData   = 0
	typeWindow = 1
	typePing   = 2
	flagFIN    = 4
	flagRST    = 8

	pingBurst = 32 // pings that may come in one pingSpan; a sound peer sends one each keepAlive
	pingSpan  = 10 * time.Second
)

var errFlood = errors.New("the peer sends too many pings")

// guard stands between the multiplexer and the connection and follows the frames. It cuts a peer that floods pings, for
// the multiplexer answers each in a goroutine of its own and would be driven out of memory; and it sends a frame's
// header and body in one system call, which wakes the reader once.
type guard struct {
	net.Conn
	in     frames
	header []byte // of a frame whose body comes with the next Write
	out    []byte
}

func newGuard(c net.Conn) *guard { return &guard{Conn: c, out: make([]byte, 0, headerSize)} }

// Read follows the frames that pass.
func (g *guard) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if e := g.in.pass(b[:n], time.Now); e != nil {
		return 0, e
	}
	return n, err
}

// Write joins a header to its body. The multiplexer writes from one goroutine, header and body apart.
func (g *guard) Write(b []byte) (int, error) {
	if g.header == nil && len(b) == headerSize && b[1] == typeData && binary.BigEndian.Uint32(b[8:]) > 0 {
		g.header = append(g.out[:0], b...)
		return len(b), nil
	}
	if g.header == nil {
		return g.Conn.Write(b)
	}
	header := g.header
	g.header = nil
	if w, ok := g.Conn.(interface{ writeAll(pieces ...[]byte) error }); ok {
		return len(b), w.writeAll(header, b)
	}
	both := net.Buffers{header, b}
	n, err := both.WriteTo(g.Conn)
	return max(0, int(n)-headerSize), err
}

// frames follows a byte stream of yamux frames.
type frames struct {
	head  [headerSize]byte
	have  int    // bytes of head
	skip  uint32 // bytes of the current body still to come
	pings int
	since time.Time
	// arrived is told of each frame of a stream: how many bytes it brings, and whether it is the last. Nil: nobody
	// wants to know.
	arrived func(stream, length uint32, ended bool) error
}

func (f *frames) pass(b []byte, now func() time.Time) error {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(uint32(len(b)), f.skip)
			f.skip -= n
			b = b[n:]
			continue
		}
		n := copy(f.head[f.have:], b)
		f.have += n
		b = b[n:]
		if f.have < headerSize {
			return nil
		}
		f.have = 0
		if err := f.frame(now); err != nil {
			return err
		}
	}
	return nil
}

func (f *frames) frame(now func() time.Time) error {
	switch f.head[1] {
	case typeData:
		f.skip = binary.BigEndian.Uint32(f.head[8:])
		return f.tell(f.skip)
	case typeWindow:
		return f.tell(0)
	case typePing:
		if t := now(); t.Sub(f.since) > pingSpan {
			f.pings, f.since = 0, t
		}
		if f.pings++; f.pings > pingBurst {
			return errFlood
		}
	}
	return nil
}

func (f *frames) tell(length uint32) error {
	if f.arrived == nil {
		return nil
	}
	flags := binary.BigEndian.Uint16(f.head[2:])
	return f.arrived(binary.BigEndian.Uint32(f.head[4:]), length, flags&(flagFIN|flagRST) != 0)
}

// greet sends the hello and expects the peer's.
func greet(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, hello); err != nil {
		return err
	}
	b := make([]byte, len(hello))
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	if string(b) != hello {
		return errors.New("the peer speaks another version of the link")
	}
	return c.SetDeadline(time.Time{})
}
