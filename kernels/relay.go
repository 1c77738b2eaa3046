package kernels

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/internal/backoff"
	"slipway/internal/errs"
	"slipway/kernels/wire"
	"slipway/spawner"
)

const (
	redialAfter = 200 * time.Millisecond // the first time; then ever later
	redialMost  = 5 * time.Second
	helloTime   = 10 * time.Second
	lastTime    = 2 * time.Second // for what a client has said to be taken, when it or the service is gone
	worryAfter  = 5 * time.Second // then a client is told that what it says is not taken
)

// refusal is an agent's word that it does not take a client.
type refusal struct{ error }

func newBackoff() *backoff.Backoff { return &backoff.Backoff{First: redialAfter, Most: redialMost} }

// relay carries messages between the client and the kernel's agent until one of them is gone. When the way between the
// service and the agent breaks, it goes on over another: what the client has said and the kernel has not taken is sent
// once more, and the agent takes each once.
func (c *client) relay(ctx context.Context) error {
	ctx, end := c.outlast(ctx)
	defer end()
	for failed := newBackoff(); ; {
		way, err := c.reach(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err = c.follow(ctx, way); !way.takes {
			return err
		}
		if time.Since(began) > redialMost {
			failed.Reset()
		}
		if !failed.Wait(ctx) {
			return err
		}
		c.Logger.Debug("the way to a kernel has broken", "id", c.id, "error", err)
	}
}

// outlast returns a context that ends a little later: what the client has said last is to be taken.
func (c *client) outlast(ctx context.Context) (late context.Context, end func()) {
	late, cut := context.WithCancel(context.WithoutCancel(ctx))
	over, done := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		wait, cancel := context.WithTimeout(late, lastTime)
		defer cancel()
		if !c.replaced.Load() { // another sends it
			c.outbox.empty(wait)
		}
		cut()
		select {
		case <-over:
		case <-time.After(partTime): // what is being written to the client holds it up
			c.cut()
		}
	})
	return late, func() {
		cut()
		close(over)
		if !stop() {
			<-done
		}
	}
}

// reach opens a way to the kernel's agent once the kernel is up. While it is its agent may be away: it comes again.
func (c *client) reach(ctx context.Context) (*stream, error) {
	began := time.Now()
	for failed := newBackoff(); ; {
		if err := c.rises(ctx); err != nil {
			return nil, err
		}
		way, err := c.dial(ctx)
		if no := (refusal{}); err == nil || errors.As(err, &no) {
			return way, err
		}
		c.Logger.Debug("a kernel's agent is not reached", "id", c.id, "error", err)
		if time.Since(began) > worryAfter {
			c.worry()
		}
		if !failed.Wait(ctx) {
			return nil, ctx.Err()
		}
	}
}

// rises waits until the kernel is up. An error: it is over, or nobody waits any more.
func (c *client) rises(ctx context.Context) error {
	k, err := c.now(ctx)
	if err == nil && k.Phase != spawner.Running && !over(k) {
		c.tell("status", nil, map[string]string{"execution_state": "starting"})
	}
	for told := ""; ; {
		wait, cancel := context.WithTimeout(ctx, worryAfter)
		k, err = c.Engine.Await(
			wait, c.whose, c.id, func(w spawner.Workload) bool { return w.Phase == spawner.Running || over(w) },
		)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			break
		}
		told = c.reassure(told)
	}
	if err == nil && over(k) {
		err = errs.New(errs.Unavailable, "the kernel has ended")
	}
	return err
}

// dial opens a way to the agent, and says who is there.
func (c *client) dial(ctx context.Context) (*stream, error) {
	conn, err := c.Dial(ctx, c.id)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	way := &stream{Conn: conn, in: bufio.NewReader(conn)}
	if err := c.greet(way); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return way, nil
}

func (c *client) greet(way *stream) error {
	_ = way.SetDeadline(time.Now().Add(helloTime)) // not all connections have one
	defer func() { _ = way.SetDeadline(time.Time{}) }()
	if err := wire.WriteHello(way, c.hello); err != nil {
		return err
	}
	v, err := wire.ReadWelcome(way.in)
	switch {
	case err != nil:
		return err
	case v.Error != "":
		return refusal{errs.New(errs.Unavailable, "the kernel's agent says: %s", errs.Shorten(v.Error))}
	}
	c.hello.Fresh, c.hello.Once = false, true // from now on it sends once more what may not have come
	c.cell.recalls(v.Cell)
	c.cell.asks(v.Asked)
	way.takes = v.Takes
	way.written.Store(v.Acked)
	way.has.Store(v.Acked)
	way.told = v.Acked
	return nil
}

// follow carries messages over one way, until it breaks.
func (c *client) follow(ctx context.Context, way *stream) error {
	defer way.Close()
	stop := context.AfterFunc(ctx, func() { _ = way.Close() })
	defer stop()
	way.sending.do = func() { c.send(way) }
	c.outbox.route(way)
	c.way.Store(way)
	way.sending.start()
	c.relieve()
	err := c.deliverAll(ctx, way)
	_ = way.Close()
	c.way.Store(nil)
	way.sending.end()
	return err
}

// deliverAll gives the client what the kernel says.
func (c *client) deliverAll(ctx context.Context, way *stream) error {
	for {
		if err := c.deliverNext(ctx, way); err != nil {
			return err
		}
	}
}

// deliverNext gives the client the next message. A large one waits until there is room for it: slow clients of one user
// together hold so much and no more.
func (c *client) deliverNext(ctx context.Context, way *stream) error {
	n, err := wire.Next(way.in)
	if err != nil {
		return err
	}
	c.writing.Store(true)
	defer c.writing.Store(false)
	free, err := c.guest.hold(ctx, c.cost(n))
	if err != nil {
		return err
	}
	defer free()
	d, err := wire.ReadDown(way.in)
	if err != nil {
		return err
	}
	if d.Message == nil {
		return c.took(way, d.Taken)
	}
	c.cell.hears(d.Message)
	switch {
	case c.deaf: // what it has said is still to be taken
	case c.deliver(d.Message) != nil:
		c.deaf = true
		c.gone()
	default:
		way.written.Store(d.Seq)
		c.looking.start()
	}
	return nil
}

// deliver gives the client one message, which travels in the new framing.
func (c *client) deliver(data []byte) error {
	if _, same := c.codec.(wire.V1); same {
		return c.write(true, data)
	}
	m, err := wire.DecodeV1(data)
	if err != nil { // it would come again and again
		c.remark(c.cell.last(), fmt.Sprintf(leftOut, err))
		return nil
	}
	return c.show(m)
}

// took notes how many messages the kernel has taken that came by a way.
func (c *client) took(way *stream, messages uint64) error {
	room, err := c.outbox.took(way, messages)
	c.guest.up.Release(room)
	if c.worried.Load() != nil && !c.outbox.overdue(way) {
		c.relieve()
	}
	return err
}
