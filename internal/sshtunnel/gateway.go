package sshtunnel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// Conn is one ssh connection, seen from the gateway.
type Conn struct {
	dial   func(context.Context) (net.Conn, error)
	login  Login
	stream net.Conn
	out    pipe

	asking  sync.Mutex // one question at a time
	replies chan replyFrame
	opened  chan *Incoming
	done    chan struct{}
	heedful bool

	lines    atomic.Uint32
	mu       sync.Mutex
	channels map[*Channel]bool
	closed   bool
	work     sync.WaitGroup
}

const incomingWaiting = 16

// Dial begins a connection. dial opens a stream to the agent's ssh door; deny are the networks to which it is to open
// no forward. Close must be called.
func Dial(ctx context.Context, dial func(context.Context) (net.Conn, error), l Login, deny []string) (*Conn, error) {
	raw, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	stream := newStream(raw)
	c := &Conn{
		dial: dial, login: l, stream: stream, out: pipe{to: stream},
		replies: make(chan replyFrame, 1), opened: make(chan *Incoming, incomingWaiting), done: make(chan struct{}),
		channels: map[*Channel]bool{},
	}
	if err := c.begin(ctx, deny); err != nil {
		_ = stream.Close()
		return nil, fmt.Errorf("begin an ssh connection to the session: %w", err)
	}
	c.work.Go(c.run)
	return c, nil
}

func (c *Conn) begin(ctx context.Context, deny []string) (err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.stream.Close() })
	defer stop()
	if err := c.out.send(frameLogin, &c.login); err != nil {
		return err
	}
	if err := c.sendDeny(deny); err != nil {
		return err
	}
	if err := accepted(c.stream); err != nil {
		return err
	}
	c.heedful, err = c.heeds(deny)
	return err
}

// accepted reads the answer to the first frame of a stream.
func accepted(stream net.Conn) error {
	kind, size, err := readHeader(stream)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	switch kind {
	case frameAccept:
		return readRest(stream, size, nil)
	case frameRefuse:
		var r refuseFrame
		if err := readRest(stream, size, &r); err != nil {
			return err
		}
		return &Refusal{r.Reason, r.Message}
	}
	return fmt.Errorf("a frame %q for an answer", kind)
}

// run takes what the agent says of the connection as a whole.
func (c *Conn) run() {
	for c.frame() == nil {
	}
	close(c.done)
	close(c.opened)
	_ = c.stream.Close()
}

func (c *Conn) frame() error {
	kind, size, err := readHeader(c.stream)
	if err != nil {
		return err
	}
	switch kind {
	case frameReply:
		var r replyFrame
		if err := readRest(c.stream, size, &r); err != nil {
			return err
		}
		select {
		case c.replies <- r:
			return nil
		default:
			return errors.New("an answer that nobody has asked for")
		}
	case frameIncoming:
		var i incomingFrame
		if err := readRest(c.stream, size, &i); err != nil {
			return err
		}
		c.opened <- &Incoming{Kind: i.Kind, Extra: i.Extra,
			accept: func(ctx context.Context) (*Channel, error) { return c.answer(ctx, i.Number) },
			refuse: func(reason uint32, message string) error {
				return c.out.send(frameRefused, &refusedFrame{i.Number, reason, message})
			},
		}
		return nil
	}
	return fmt.Errorf("a frame %q", kind)
}

// Open opens a channel. The error is a *Refusal when the session refuses it.
func (c *Conn) Open(ctx context.Context, kind string, extra []byte) (*Channel, error) {
	return c.stretch(ctx, func(line uint32) (byte, any) { return frameOpen, &openFrame{c.login.ID, line, kind, extra} })
}

// answer opens the channel that the agent has asked for.
func (c *Conn) answer(ctx context.Context, number uint32) (*Channel, error) {
	return c.stretch(ctx, func(line uint32) (byte, any) { return frameAnswer, &answerFrame{c.login.ID, line, number} })
}

// stretch opens the stream of a channel, whose first frame is made of its number.
func (c *Conn) stretch(ctx context.Context, first func(line uint32) (kind byte, rest any)) (*Channel, error) {
	raw, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	stream := newStream(raw)
	ch := newChannel(stream)
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	line := c.lines.Add(1)
	ch.gone = func() { c.tellGone(line) }
	err = ch.out.send(first(line))
	if err == nil {
		err = accepted(stream)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = c.keep(ch)
	}
	if err != nil {
		_ = stream.Close()
		return nil, err
	}
	return ch, nil
}

// tellGone tells the agent of a channel that was cut: what is behind its stream may read nothing, and would not see
// that it has ended.
func (c *Conn) tellGone(line uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.work.Go(func() { _ = c.out.send(frameGone, &goneFrame{line}) })
	}
}

// keep has the channel served until it ends.
func (c *Conn) keep(ch *Channel) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrCut
	}
	c.channels[ch] = true
	c.work.Go(func() {
		ch.run()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.channels, ch)
	})
	return nil
}

// Request makes a request of the whole connection. With want it waits for the answer.
func (c *Conn) Request(
	ctx context.Context, kind string, want bool, payload []byte,
) (ok bool, answer []byte, err error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if err := c.out.send(frameRequest, &requestFrame{kind, want, payload}); err != nil || !want {
		return false, nil, err
	}
	select {
	case r := <-c.replies:
		return r.OK, r.Payload, nil
	case <-c.done:
		return false, nil, ErrCut
	case <-ctx.Done():
		_ = c.stream.Close() // the answer would be taken for the next question's
		return false, nil, ctx.Err()
	}
}

// Opened returns the channels that the session asks for towards the client, until the connection ends. Each is to be
// accepted or refused.
func (c *Conn) Opened() <-chan *Incoming { return c.opened }

// Done is closed when the connection to the session has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close ends the connection and cuts its channels. It returns when nothing of it runs any more.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	open := slices.Collect(maps.Keys(c.channels))
	c.mu.Unlock()
	_ = c.stream.Close()
	for _, ch := range open {
		ch.Cut()
	}
	c.work.Go(func() { // what nobody else takes any more, so that who sends it ends
		for range c.opened {
			continue
		}
	})
	c.work.Wait()
}

// Incoming is a channel that the other side asks for. It is accepted or refused, once.
type Incoming struct {
	Kind  string
	Extra []byte

	accept func(context.Context) (*Channel, error)
	refuse func(reason uint32, message string) error
}

// Accept opens the channel.
func (i *Incoming) Accept(ctx context.Context) (*Channel, error) { return i.accept(ctx) }

// Refuse refuses it.
func (i *Incoming) Refuse(reason uint32, message string) error { return i.refuse(reason, message) }
