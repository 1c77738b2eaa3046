package tunnel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// The messages of the line that goes with the streams that have sockets of their own. Each has one size: a byte that
// says what it is, the stream's number, and its door. The line's sockets keep messages apart.
const (
	lineReady byte = 'r' // the agent's first: it takes sockets
	lineOpen  byte = 'o' // the service's, with the agent's end of a new stream
	lineEnd   byte = 'e' // either's, with the end of its direction: it is an end, and no cut
	lineGone  byte = 'g' // the agent's: it could not take a stream

	lineSize = 10

	// wholly stands for the door of lineEnd where a side has closed the stream, and reads no more of it either. Those
	// of the version before take it for an end.
	wholly Door = 1

	mostWords = 2 // of an agent about one stream: that it has ended, and that it has closed it
)

type message struct {
	kind   byte
	number uint64
	door   Door
}

func (m message) bytes() []byte {
	return append(binary.BigEndian.AppendUint64([]byte{m.kind}, m.number), byte(m.door))
}

func parseMessage(b []byte) (message, error) {
	if len(b) != lineSize {
		return message{}, fmt.Errorf("a message of %d bytes", len(b))
	}
	return message{b[0], binary.BigEndian.Uint64(b[1:]), Door(b[9])}, nil
}

// sockets are the streams of a link of this host that have sockets of their own: those that the service opens. It makes
// a pair for each, and passes one end to the agent through the line, a third pair, whose end goes with the service's
// hello.
type sockets struct {
	line     *net.UnixConn
	accept   func(context.Context, Door, net.Conn) // takes what the service opens; nil on its own side
	patience time.Duration                         // with a peer that takes no messages, or ends without a word

	sending sync.Mutex
	unsaid  *backlog[message] // what nobody waits for to be sent

	mu     sync.Mutex
	last   uint64
	words  uint64 // that the agent has said
	conns  map[uint64]*socketConn
	closed bool
}

func newSockets(line *net.UnixConn) *sockets {
	return &sockets{line: line, patience: stallTime, unsaid: newBacklog[message](), conns: map[uint64]*socketConn{}}
}

// greetAgent greets an agent. Nil sockets: it is of another host, or does not take them, as those of earlier versions
// do not.
func greetAgent(ctx context.Context, c net.Conn) (*sockets, error) {
	local, ok := c.(*net.UnixConn)
	if !ok {
		return nil, greet(c)
	}
	line, theirs, err := twoEnds(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = line.Close() })()
	err = greet(&giver{local, theirs})
	_ = theirs.Close() // so that the line ends where the agent has not taken it
	if err == nil && ready(line) {
		return newSockets(line), nil
	}
	_ = line.Close()
	return nil, err
}

func ready(line *net.UnixConn) bool {
	b := make([]byte, lineSize+1)
	_ = line.SetReadDeadline(time.Now().Add(handshakeTime))
	n, err := line.Read(b)
	_ = line.SetReadDeadline(time.Time{})
	m, bad := parseMessage(b[:n])
	return err == nil && bad == nil && m.kind == lineReady
}

// greetService greets the service, and takes the line that it offers. Nil sockets: it offers none, or this process may
// have no more files.
func greetService(c net.Conn) (*sockets, error) {
	local, ok := c.(*net.UnixConn)
	if !ok {
		return nil, greet(c)
	}
	t := &taker{UnixConn: local}
	defer t.drop()
	if err := greet(t); err != nil {
		return nil, err
	}
	line, err := t.take()
	if err != nil {
		return nil, nil
	}
	s := newSockets(line)
	if s.send(message{kind: lineReady}, nil) != nil {
		return nil, nil
	}
	return s, nil
}

// send sends a message, and a file along with it. Who does not take it in time loses the link.
func (s *sockets) send(m message, file *os.File) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = s.line.SetWriteDeadline(time.Now().Add(s.patience))
	_, err := (&giver{s.line, file}).Write(m.bytes())
	if broken(err) {
		_ = s.line.Close()
	}
	return err
}

// broken reports whether an error is the line's own, and not only of what was to go through it: a process may have no
// more than so many sockets on their way to others.
func broken(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// speak sends what is unsaid, until the streams are cut. What cannot be said would leave the peer waiting for it.
func (s *sockets) speak() {
	for list := s.unsaid.next(); list != nil; list = s.unsaid.next() {
		for _, m := range list {
			if s.send(m, nil) != nil {
				_ = s.line.Close()
				return
			}
		}
	}
}

// open opens a stream.
func (s *sockets) open(door Door) (net.Conn, error) {
	ours, theirs, err := twoEnds(unix.SOCK_STREAM)
	if err != nil {
		return nil, errs.New(errs.Unavailable, "open a stream to the workload: %w", err)
	}
	defer theirs.Close()
	c, err := s.enroll(ours, s.next())
	if err != nil {
		return nil, err
	}
	if err := s.send(message{lineOpen, c.number, door}, theirs); err != nil {
		c.lose(err)
		return nil, errs.New(errs.Unavailable, "open a stream to the workload: %w", err)
	}
	return c, nil
}

func (s *sockets) next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// enroll makes a stream of a socket, if it may have one.
func (s *sockets) enroll(raw *net.UnixConn, number uint64) (*socketConn, error) {
	c := &socketConn{raw: raw, owner: s, number: number, told: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		_ = raw.Close()
		return nil, lost()
	case len(s.conns) >= ownStreams:
		_ = raw.Close()
		return nil, tooMany(len(s.conns))
	}
	s.conns[number] = c
	return c, nil
}

func (s *sockets) forget(c *socketConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c.number)
}

func (s *sockets) find(number uint64) *socketConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[number]
}

// run serves the line until it ends.
func (s *sockets) run(ctx context.Context, start func(func()) bool) {
	start(s.speak)
	if s.accept == nil {
		_ = s.follow()
		return
	}
	_ = s.receive(ctx, start)
}

// follow takes, on the service's side, what the agent says, until the line ends.
func (s *sockets) follow() error {
	b := make([]byte, lineSize+1)
	for {
		n, err := s.line.Read(b)
		if err != nil {
			return err
		}
		m, err := parseMessage(b[:n])
		if err != nil {
			return err
		}
		if err := s.count(m.number); err != nil {
			return err
		}
		if err := s.ended(m); err != nil {
			return err
		}
	}
}

// count counts what the agent says: it has only so much to say of what the service has opened.
func (s *sockets) count(number uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.words++; number > s.last || s.words > mostWords*s.last {
		return errors.New("the agent has more to say than there are streams")
	}
	return nil
}

// ended takes what the peer says of a stream. It may have been closed here in the meantime.
func (s *sockets) ended(m message) error {
	if m.kind != lineEnd && m.kind != lineGone {
		return fmt.Errorf("a message %q", m.kind)
	}
	c := s.find(m.number)
	switch {
	case c == nil:
	case m.kind == lineGone:
		c.lose(noRoom())
	default:
		c.tell()
		c.note(m.door == wholly, false)
	}
	return nil
}

func noRoom() error {
	return errs.New(errs.Unavailable, "the session has no room for another connection").
		With("close some, then try again")
}

// receive takes, on the agent's side, the streams that the service opens, until the line ends.
func (s *sockets) receive(ctx context.Context, start func(func()) bool) error {
	t := &taker{UnixConn: s.line}
	defer t.drop()
	b := make([]byte, lineSize+1)
	for {
		n, err := t.Read(b)
		if err != nil {
			return err
		}
		m, err := parseMessage(b[:n])
		if err != nil {
			return err
		}
		if m.kind != lineOpen {
			err = s.ended(m)
		} else if c, bad := s.take(t, m.number); bad != nil {
			s.unsaid.add(message{kind: lineGone, number: m.number})
		} else if !start(func() { s.accept(ctx, m.door, c) }) {
			err = net.ErrClosed
		}
		if err != nil {
			return err
		}
	}
}

// take makes a stream of the socket that has come.
func (s *sockets) take(t *taker, number uint64) (*socketConn, error) {
	raw, err := t.take()
	if err != nil {
		return nil, err
	}
	return s.enroll(raw, number)
}

// close cuts all streams.
func (s *sockets) close() {
	_ = s.line.Close()
	s.unsaid.end()
	s.mu.Lock()
	s.closed = true
	open := slices.Collect(maps.Values(s.conns))
	s.mu.Unlock()
	for _, c := range open {
		c.lose(lost())
	}
}
