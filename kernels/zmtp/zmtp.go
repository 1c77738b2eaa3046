// Package zmtp speaks ZMTP 3.0 with the mechanism NULL, as libzmq does: one connection, from either side.
//
// Promises: what a peer sends is bounded, and a peer that takes nothing holds up nobody. It does not bind, resolve or
// connect again: whoever has the connections does that where it is needed, and knows which kinds of sockets go with
// each other.
package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"time"
)

// Limit is how many bytes a message has at most.
const Limit = 128 << 20

const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4

	handshakeTime = 10 * time.Second
	mostFrames    = 5000
	mostQueued    = 4096 // messages that wait for a peer which takes none
	soon          = 64 << 10
)

var errFull = errors.New("the other side takes no more messages")

// Socket is one connection.
type Socket struct {
	conn  net.Conn
	in    *bufio.Reader
	ahead *spool // what in reads from; nil: the connection

	mu     sync.Mutex
	queue  [][]byte
	queued int       // bytes
	line   int       // messages: of the queue, and what is being written
	took   time.Time // when the last one was taken, or since when there is one that is not
	closed bool
	more   chan struct{}
	room   chan struct{} // holds one thing after something has been taken
	over   chan struct{} // closed with the socket
	unhook func() bool   // from what closes it
	peer   string
}

// Peer returns the identity by which the other side wants to be found; empty: it leaves that to this side.
func (s *Socket) Peer() string { return s.peer }

// Open makes a connection one of a kind of ZeroMQ's sockets, with an identity. It is closed when ctx ends. Write is to
// run for as long as it is open.
func Open(ctx context.Context, c net.Conn, kind string, identity []byte) (*Socket, error) {
	s := &Socket{
		conn: c, in: bufio.NewReaderSize(c, soon), more: make(chan struct{}, 1), room: make(chan struct{}, 1),
		over: make(chan struct{}),
	}
	_ = c.SetDeadline(time.Now().Add(handshakeTime))
	if err := s.greet(kind, identity); err != nil {
		return nil, errors.Join(fmt.Errorf("greet the other side: %w", err), c.Close())
	}
	_ = c.SetDeadline(time.Time{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unhook = context.AfterFunc(ctx, s.Close)
	return s, nil
}

// hello is what this side says of itself.
func hello(kind string, identity []byte) []byte {
	b := make([]byte, 64)
	b[0], b[8], b[9], b[10] = 0xff, 1, 0x7f, 3
	copy(b[12:], "NULL")
	ready := property([]byte("\x05READY"), "Socket-Type", []byte(kind))
	return appendFrame(b, flagCommand, property(ready, "Identity", identity))
}

func (s *Socket) greet(kind string, identity []byte) error {
	if _, err := s.conn.Write(hello(kind, identity)); err != nil {
		return err
	}
	var peer [64]byte
	if _, err := io.ReadFull(s.in, peer[:]); err != nil {
		return err
	}
	if peer[0] != 0xff || peer[9]&1 == 0 || peer[10] < 3 || !bytes.Equal(bytes.TrimRight(peer[12:32], "\x00"), []byte("NULL")) {
		return errors.New("it does not speak ZMTP 3 without encryption")
	}
	flags, body, err := s.frame(soon)
	properties, is := bytes.CutPrefix(body, []byte("\x05READY"))
	if err == nil && (flags&flagCommand == 0 || !is) {
		err = fmt.Errorf("it answers %.80q", body)
	}
	if err == nil {
		s.peer, err = readIdentity(properties)
	}
	return err
}

const longestIdentity = 255

// readIdentity reads the properties of a READY: a name, its length in one byte before it, and a value, its length in
// four.
func readIdentity(b []byte) (identity string, err error) {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+4 {
			return "", errors.New("a property of its READY is cut off")
		}
		name, size := string(b[1:1+n]), int64(binary.BigEndian.Uint32(b[1+n:]))
		if b = b[1+n+4:]; int64(len(b)) < size {
			return "", errors.New("a property of its READY is cut off")
		}
		if strings.EqualFold(name, "identity") {
			identity = string(b[:size])
		}
		b = b[size:]
	}
	if len(identity) > longestIdentity {
		return "", errors.New("its identity is too long")
	}
	return identity, nil
}

func property(b []byte, name string, value []byte) []byte {
	b = append(append(b, byte(len(name))), name...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

func appendFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) < 256 {
		b = append(b, flags, byte(len(body)))
	} else {
		b = binary.BigEndian.AppendUint64(append(b, flags|flagLong), uint64(len(body)))
	}
	return append(b, body...)
}

func appendFrames(b []byte, frames [][]byte) []byte {
	for i, f := range frames {
		flags := byte(flagMore)
		if i == len(frames)-1 {
			flags = 0
		}
		b = appendFrame(b, flags, f)
	}
	return b
}

// ReadAhead takes what comes as fast as it comes. It is called before anything is received, and fill goes on until the
// socket is closed.
func (s *Socket) ReadAhead() (fill func()) {
	s.ahead = newSpool(s.in)
	s.in = bufio.NewReaderSize(s.ahead, soon)
	return s.ahead.fill
}

// ErrTooLarge is what Receive gives in place of a message that is larger than any may be. The next one can be received.
var ErrTooLarge = fmt.Errorf("a message of more than %d bytes, or of more than %d frames", Limit, mostFrames)

// Receive returns the next message. One socket has one receiver.
func (s *Socket) Receive() ([][]byte, error) {
	var frames [][]byte
	for size, large := 0, false; ; {
		flags, body, err := s.frame(Limit - size)
		switch {
		case errors.Is(err, ErrTooLarge):
			large = true
		case err != nil:
			return nil, err
		}
		if flags&flagCommand != 0 {
			continue
		}
		if large = large || len(frames) > mostFrames; !large {
			frames, size = append(frames, body), size+len(body)
		}
		switch last := flags&flagMore == 0; {
		case last && large:
			return nil, ErrTooLarge
		case last:
			return frames, nil
		}
	}
}

// frame reads one frame. One of more bytes than limit is read to its end, and ErrTooLarge given in its place.
func (s *Socket) frame(limit int) (flags byte, body []byte, err error) {
	if flags, err = s.in.ReadByte(); err != nil {
		return 0, nil, err
	}
	size := make([]byte, 8)
	if flags&flagLong != 0 {
		_, err = io.ReadFull(s.in, size)
	} else {
		size[7], err = s.in.ReadByte()
	}
	if err != nil {
		return 0, nil, err
	}
	switch n := binary.BigEndian.Uint64(size); {
	case n > math.MaxInt64:
		return 0, nil, fmt.Errorf("the other side announces %d bytes", n)
	case n > uint64(max(limit, 0)):
		if _, err = io.CopyN(io.Discard, s.in, int64(n)); err == nil {
			err = ErrTooLarge
		}
	default:
		body, err = ReadN(s.in, int(n))
	}
	return flags, body, err
}

// Send puts a message in line. It does not wait: a kernel that computes takes messages when it has done so.
func (s *Socket) Send(frames [][]byte) error {
	b := appendFrames(nil, frames)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	if len(s.queue) >= mostQueued || len(s.queue) > 0 && s.queued+len(b) > Limit {
		return errFull
	}
	if s.line == 0 {
		s.took = time.Now()
	}
	s.queue, s.queued, s.line = append(s.queue, b), s.queued+len(b), s.line+1
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
}

// SendSoon puts a message in line once there is room for it. A peer that has taken nothing for longer than patience is
// an error.
func (s *Socket) SendSoon(ctx context.Context, frames [][]byte, patience time.Duration) error {
	for {
		err := s.Send(frames)
		if !errors.Is(err, errFull) {
			return err
		}
		wait, cancel := context.WithDeadline(ctx, s.last().Add(patience))
		select {
		case <-s.room:
		case <-s.over:
		case <-wait.Done():
			cancel()
			return errors.Join(err, ctx.Err())
		}
		cancel()
	}
}

// Write writes what was put in line, until the socket is closed.
func (s *Socket) Write() {
	for {
		s.mu.Lock()
		queue, closed := s.queue, s.closed
		s.queue, s.queued = nil, 0
		s.mu.Unlock()
		if closed {
			return
		}
		for _, b := range queue {
			if _, err := s.conn.Write(b); err != nil {
				s.Close()
				return
			}
			s.taken()
		}
		if len(queue) == 0 {
			<-s.more
		}
	}
}

// last is when the peer has last taken something of what waits for it.
func (s *Socket) last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took
}

// taken notes that a message was taken. There may be room now.
func (s *Socket) taken() {
	s.mu.Lock()
	s.line, s.took = s.line-1, time.Now()
	s.mu.Unlock()
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// Close ends the connection. What waits to be written is lost.
func (s *Socket) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed, s.queue = true, nil
	s.unhook()
	if s.ahead != nil {
		s.ahead.end()
	}
	close(s.more)
	close(s.over)
	_ = s.conn.Close()
}
