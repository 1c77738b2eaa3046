package sshtunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"slipway/internal/taskgroup"
)

// Handler is what the agent does for ssh connections. Its methods are called from several goroutines.
type Handler interface {
	// Channel serves a channel that the client asks for: it accepts or refuses it, and returns when it has done with
	// it.
	Channel(ctx context.Context, p *Peer, i *Incoming)
	// Request answers a request of the whole connection. The next one waits for it, and so do answers to Peer.Open.
	Request(ctx context.Context, p *Peer, kind string, payload []byte) (ok bool, answer []byte)
	// Left is called once when a connection has ended. ctx of its channels has ended by then.
	Left(p *Peer)
}

// greeting is how long a stream may take to say what it is for.
const greeting = 10 * time.Second

// Server is the agent's side of all connections of its session.
type Server struct {
	handler Handler
	log     *slog.Logger

	mu    sync.Mutex
	peers map[string]*Peer
}

// NewServer makes a Server.
func NewServer(h Handler, log *slog.Logger) *Server {
	return &Server{handler: h, log: log, peers: map[string]*Peer{}}
}

// Peer is one connection, seen from the agent.
type Peer struct {
	Login

	out   pipe
	tasks *taskgroup.Group // channels; ends with the connection

	mu      sync.Mutex
	number  uint32
	waiting map[uint32]chan<- opening // what was asked for, by its number
	lines   map[uint32]*Channel       // those that are open, by the gateway's number
	deny    []string
}

// opening is what becomes of a channel that was asked for.
type opening struct {
	channel *Channel
	err     error
}

// Serve serves one stream of the ssh door, and returns when it has ended.
func (s *Server) Serve(ctx context.Context, stream net.Conn) {
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { _ = stream.Close() })()
	if err := s.serve(ctx, newStream(stream)); err != nil && ctx.Err() == nil {
		s.log.Debug("an ssh stream has ended", "error", err)
	}
}

func (s *Server) serve(ctx context.Context, stream net.Conn) error {
	_ = stream.SetReadDeadline(time.Now().Add(greeting))
	kind, size, err := readHeader(stream)
	if err != nil {
		return err
	}
	switch kind {
	case frameLogin:
		var l Login
		if err := readRest(stream, size, &l); err != nil {
			return err
		}
		_ = stream.SetReadDeadline(time.Time{})
		return s.connection(ctx, stream, l)
	case frameOpen:
		var o openFrame
		if err := readRest(stream, size, &o); err != nil {
			return err
		}
		_ = stream.SetReadDeadline(time.Time{})
		return s.channel(stream, o)
	case frameAnswer:
		var a answerFrame
		if err := readRest(stream, size, &a); err != nil {
			return err
		}
		_ = stream.SetReadDeadline(time.Time{})
		return s.answered(stream, a)
	}
	return fmt.Errorf("a frame %q at the beginning of a stream", kind)
}

// connection serves what concerns a whole connection, until it ends.
func (s *Server) connection(ctx context.Context, stream net.Conn, l Login) error {
	p := &Peer{Login: l, out: pipe{to: stream}, waiting: map[uint32]chan<- opening{}, lines: map[uint32]*Channel{}}
	p.tasks = taskgroup.New(ctx)
	if !s.enter(p) {
		return errors.New("a connection of this name is there already")
	}
	err := p.out.send(frameAccept, nil)
	for err == nil {
		err = s.frame(p, stream)
	}
	s.leave(p)
	return err
}

func (s *Server) enter(p *Peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers[p.ID] != nil {
		return false
	}
	s.peers[p.ID] = p
	return true
}

// leave ends a connection with all its channels.
func (s *Server) leave(p *Peer) {
	s.mu.Lock()
	delete(s.peers, p.ID)
	s.mu.Unlock()
	p.tasks.End()
	p.tasks.Wait()
	s.handler.Left(p)
}

func (s *Server) find(id string) *Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[id]
}

func (s *Server) frame(p *Peer, stream net.Conn) error {
	kind, size, err := readHeader(stream)
	if err != nil {
		return err
	}
	switch kind {
	case frameRequest:
		var r requestFrame
		if err := readRest(stream, size, &r); err != nil {
			return err
		}
		ok, answer := s.request(p, r)
		if !r.Want {
			return nil
		}
		return p.out.send(frameReply, &replyFrame{ok, answer})
	case frameRefused:
		var r refusedFrame
		if err := readRest(stream, size, &r); err != nil {
			return err
		}
		if w := p.expected(r.Number); w != nil {
			w <- opening{err: &Refusal{r.Reason, r.Message}}
		}
		return nil
	case frameGone:
		var g goneFrame
		if err := readRest(stream, size, &g); err != nil {
			return err
		}
		p.cut(g.Line)
		return nil
	}
	return fmt.Errorf("a frame %q", kind)
}

func (s *Server) request(p *Peer, r requestFrame) (ok bool, answer []byte) {
	if r.Kind == denyKind {
		return p.forbid(r.Payload), nil
	}
	return s.handler.Request(p.tasks.Context(), p, r.Kind, r.Payload)
}

// The reasons of RFC 4254 section 5.1 that this package itself has.
const connectFailed = 2

// channel serves a channel that the client asks for.
func (s *Server) channel(stream net.Conn, o openFrame) error {
	c := newChannel(stream)
	p := s.find(o.ID)
	finish, ok := p.begin(o.Line, c)
	if !ok {
		return c.out.send(frameRefuse, &refuseFrame{connectFailed, "the ssh connection has ended"})
	}
	defer finish()
	defer context.AfterFunc(p.tasks.Context(), c.Cut)()
	var running sync.WaitGroup
	defer running.Wait()
	answered := false
	s.handler.Channel(p.tasks.Context(), p, &Incoming{Kind: o.Kind, Extra: o.Extra,
		accept: func(context.Context) (*Channel, error) {
			answered = true
			if err := c.out.send(frameAccept, nil); err != nil {
				return nil, err
			}
			running.Go(c.run)
			return c, nil
		},
		refuse: func(reason uint32, message string) error {
			answered = true
			return c.out.send(frameRefuse, &refuseFrame{reason, message})
		},
	})
	if !answered {
		return c.out.send(frameRefuse, &refuseFrame{connectFailed, "the session did not open the channel"})
	}
	c.Cut() // nothing, where it was closed
	return nil
}

// answered hands a channel over that this side has asked for, and serves it.
func (s *Server) answered(stream net.Conn, a answerFrame) error {
	c := newChannel(stream)
	p := s.find(a.ID)
	finish, ok := p.begin(a.Line, c)
	if !ok {
		return errors.New("an answer to nobody")
	}
	defer finish()
	w := p.expected(a.Number)
	if w == nil {
		return errors.New("an answer to no question")
	}
	defer context.AfterFunc(p.tasks.Context(), c.Cut)()
	if err := c.out.send(frameAccept, nil); err != nil {
		w <- opening{err: ErrCut}
		return err
	}
	w <- opening{channel: c}
	c.run()
	return nil
}

// begin says whether a channel may still be served for the connection, which may be nil; if so, finish must follow.
func (p *Peer) begin(line uint32, c *Channel) (finish func(), ok bool) {
	if p == nil {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines[line] != nil {
		return nil, false
	}
	leave, ok := p.tasks.Enter()
	if !ok {
		return nil, false
	}
	p.lines[line] = c
	return func() {
		p.mu.Lock()
		delete(p.lines, line)
		p.mu.Unlock()
		leave()
	}, true
}

// cut ends a channel that the gateway has cut.
func (p *Peer) cut(line uint32) {
	p.mu.Lock()
	c := p.lines[line]
	p.mu.Unlock()
	if c != nil {
		c.Cut()
	}
}

// expected returns who waits for the channel of a number, once; nil: nobody does.
func (p *Peer) expected(number uint32) chan<- opening {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waiting[number]
	delete(p.waiting, number)
	return w
}

// Open asks for a channel towards the client. The error is a *Refusal when the client, or the gateway, refuses it.
func (p *Peer) Open(ctx context.Context, kind string, extra []byte) (*Channel, error) {
	w := make(chan opening, 1)
	p.mu.Lock()
	p.number++
	n := p.number
	p.waiting[n] = w
	p.mu.Unlock()
	if err := p.out.send(frameIncoming, &incomingFrame{n, kind, extra}); err != nil {
		p.expected(n)
		return nil, err
	}
	select {
	case o := <-w:
		return o.channel, o.err
	case <-p.tasks.Done():
		return nil, ErrCut
	case <-ctx.Done():
		if p.expected(n) == nil { // it is just coming
			if o := <-w; o.channel != nil {
				o.channel.Cut()
			}
		}
		return nil, ctx.Err()
	}
}

// Done is closed when the connection has ended.
func (p *Peer) Done() <-chan struct{} { return p.tasks.Done() }
