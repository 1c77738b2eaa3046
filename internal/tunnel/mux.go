package tunnel

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"slipway/internal/errs"
)

// handler takes a stream that the peer opened; ctx ends with the link.
type handler func(ctx context.Context, door Door, c *Conn)

// mux is one live link. serve owns its goroutines.
type mux struct {
	session *yamux.Session
	id      string
	log     *slog.Logger
	accept  handler // takes a stream of the peer's, in a goroutine that the link's end awaits
	agent   bool    // this is the agent's side
	most    int     // streams that the peer may have open
	leaving *backlog[parted]
	sockets *sockets // nil: all streams are the multiplexer's
	unread  *unread  // nil: what the peer sends is not bounded

	over atomic.Bool // it ends

	mu     sync.Mutex
	conns  map[uint32]*Conn
	theirs map[uint32]bool
	done   bool
	work   sync.WaitGroup
}

// parted is a stream that was closed here; unread says that the peer may still be sending.
type parted struct {
	conn   *Conn
	unread bool
}

// newMux takes a greeted connection over, and counts in u what comes and is not read.
func newMux(c net.Conn, id string, agent bool, log *slog.Logger, u *unread, accept handler) (*mux, error) {
	m := &mux{id: id, log: log, accept: accept, agent: agent, most: peerStreams, leaving: newBacklog[parted](), unread: u,
		conns: map[uint32]*Conn{}, theirs: map[uint32]bool{}}
	side := yamux.Server
	if agent { // the service opens what its users ask for, and bounds it itself
		side, m.most = yamux.Client, ownStreams
	}
	var err error
	guard := newGuard(c)
	guard.in.arrived = func(stream, length uint32, ended bool) error {
		err := u.arrived(stream, length, ended)
		if err != nil {
			log.Warn("link dropped", "workload", id, "why", err)
		}
		return err
	}
	m.session, err = side(guard, muxConfig(quiet{log}, receiveWindow(c, agent)))
	return m, err
}

// serve takes the peer's streams until the link ends, and then waits for all that it started.
func (m *mux) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, m.leave)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.spawn(m.endStreams)
	if m.sockets != nil {
		m.spawn(func() {
			m.sockets.run(ctx, m.spawn)
			m.close()
		})
	}
	for {
		s, err := m.session.AcceptStream()
		if err != nil {
			break
		}
		if !m.admit(ctx, s) {
			break
		}
	}
	m.close()
	cancel()
	m.mu.Lock()
	m.done = true
	m.mu.Unlock()
	m.work.Wait()
	m.unread.close()
}

// leave ends the link from this side. An agent first lets the service receive what was written, the answer to a request
// to end above all: once the connection is closed, the service's next write fails, and then it reads no more of it.
func (m *mux) leave() {
	if m.agent {
		m.flush()
	}
	m.close()
}

// flush waits until the peer has received all that was written, for at most flushTime. The multiplexer answers a ping
// after it has taken all that came before.
func (m *mux) flush() {
	received := make(chan struct{})
	if !m.spawn(func() {
		defer close(received)
		_, _ = m.session.Ping()
	}) {
		return
	}
	select {
	case <-received:
	case <-time.After(flushTime):
	}
}

// close ends the link. Readers are woken first: those of the multiplexer's would turn in circles until it has come
// round to each of them, which, when they are many, they keep it from.
func (m *mux) close() {
	m.over.Store(true)
	m.mu.Lock()
	for _, c := range m.conns {
		_ = c.stream.SetReadDeadline(time.Unix(1, 0))
	}
	m.mu.Unlock()
	_ = m.session.Close()
	m.leaving.end()
	if m.sockets != nil {
		m.sockets.close()
	}
}

// spawn runs f unless the link is done with.
func (m *mux) spawn(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done {
		return false
	}
	m.work.Go(f)
	return true
}

// admit takes one stream of the peer's. It reports false when the peer has so many that the link must go.
func (m *mux) admit(ctx context.Context, s *yamux.Stream) bool {
	if n := m.session.NumStreams(); n > allStreams {
		m.log.Warn("link dropped: the agent opens streams without end", "workload", m.id, "streams", n)
		return false
	}
	c, ok := m.enroll(s, true)
	if !ok {
		m.log.Warn("stream refused: the other side has too many open", "workload", m.id, "limit", m.most)
		_ = c.Close()
		return true
	}
	return m.spawn(func() { m.receive(ctx, c) })
}

func (m *mux) enroll(s *yamux.Stream, theirs bool) (*Conn, bool) {
	c := &Conn{stream: s, mux: m, id: m.id}
	m.mu.Lock()
	defer m.mu.Unlock()
	if theirs && len(m.theirs) >= m.most {
		return c, false
	}
	m.conns[s.StreamID()] = c
	if theirs {
		m.theirs[s.StreamID()] = true
	}
	return c, true
}

// forget makes room for another stream.
func (m *mux) forget(number uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, number)
	delete(m.theirs, number)
	m.unread.leave(number)
}

// receive reads a stream's door and hands the stream on.
func (m *mux) receive(ctx context.Context, c *Conn) {
	_ = c.SetReadDeadline(time.Now().Add(handshakeTime))
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	if Door(b[0]) == doorReset {
		m.readResets(c)
		return
	}
	m.accept(ctx, Door(b[0]), c)
}

// open opens a stream. The multiplexer knows no context, so it is asked from a goroutine that can be left behind.
func (m *mux) open(ctx context.Context, door Door) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	got := make(chan net.Conn, 1)
	fail := make(chan error, 1)
	started := m.spawn(func() {
		c, err := m.connect(door)
		if err != nil {
			fail <- err
			return
		}
		got <- c
	})
	if !started {
		return nil, lost()
	}
	select {
	case c := <-got:
		return c, nil
	case err := <-fail:
		return nil, err
	case <-ctx.Done():
		m.spawn(func() {
			select {
			case c := <-got:
				_ = c.Close()
			case <-fail:
			}
		})
		return nil, ctx.Err()
	}
}

// connect opens a stream: of the service on a socket of its own where the link has such.
func (m *mux) connect(door Door) (net.Conn, error) {
	if m.sockets == nil || m.agent {
		c, err := m.dial(door)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	return m.sockets.open(door)
}

func (m *mux) dial(door Door) (*Conn, error) {
	m.mu.Lock()
	own := len(m.conns) - len(m.theirs)
	m.mu.Unlock()
	if own >= ownStreams {
		return nil, tooMany(own)
	}
	s, err := m.session.OpenStream()
	if err != nil {
		return nil, errs.New(errs.Unavailable, "open a stream to the workload: %w", err)
	}
	c, _ := m.enroll(s, false)
	if _, err := c.Write([]byte{byte(door)}); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("open a stream to the workload: %w", err)
	}
	return c, nil
}

func tooMany(open int) error {
	return errs.New(errs.Unavailable, "the workload has %d connections open", open).With("close some, then try again")
}

// endStreams ends the streams that were closed here, and tells the peer which of them are read no more, so that it
// stops sending. A peer that does not take that in time loses the link.
func (m *mux) endStreams() {
	defer m.close()
	resets, err := m.dial(doorReset)
	if err != nil {
		return
	}
	for list := m.leaving.next(); list != nil; list = m.leaving.next() {
		for _, p := range list {
			if m.part(p, resets) != nil {
				return
			}
		}
	}
}

func (m *mux) part(p parted, resets *Conn) error {
	number := p.conn.stream.StreamID()
	m.forget(number)
	_ = p.conn.stream.Close()
	if !p.unread {
		return nil
	}
	_ = resets.SetWriteDeadline(time.Now().Add(stallTime))
	_, err := resets.Write(binary.BigEndian.AppendUint32(nil, number))
	return err
}

func (m *mux) readResets(c *Conn) {
	var b [4]byte
	for {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			_ = c.Close()
			return
		}
		m.mu.Lock()
		target := m.conns[binary.BigEndian.Uint32(b[:])]
		m.mu.Unlock()
		if target != nil && target != c {
			target.refuse()
		}
	}
}

// quiet takes the multiplexer's own log: a hostile peer can make it as long as it likes.
type quiet struct{ log *slog.Logger }

func (q quiet) Print(v ...any)            { q.log.Debug(fmt.Sprint(v...)) }
func (q quiet) Printf(f string, v ...any) { q.log.Debug(fmt.Sprintf(f, v...)) }
func (q quiet) Println(v ...any)          { q.log.Debug(fmt.Sprintln(v...)) }
