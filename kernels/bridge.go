package kernels

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"slipway/internal/errs"
	"slipway/kernels/wire"
	"slipway/spawner"
)

const (
	redialAfter = 200 * time.Millisecond // the first time; then ever later
	redialMost  = 5 * time.Second
	helloTime   = 10 * time.Second
)

// bridge carries messages between the client and the kernel's agent until one of them is gone.
func (c *client) bridge(ctx context.Context) error {
	conn, err := c.reach(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unblock := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unblock()
	defer conn.Close()
	r := bufio.NewReader(conn)
	if err := c.greet(conn, r); err != nil {
		return err
	}
	up := make(chan error, 1)
	go func() { defer cancel(); up <- c.carryUp(ctx, conn) }()
	err = c.carryDown(ctx, r)
	cancel()
	_ = conn.Close()
	<-up
	return err
}

// reach opens a stream to the kernel's agent. While the kernel is there its agent may be away: it comes again.
func (c *client) reach(ctx context.Context) (net.Conn, error) {
	for pause := redialAfter; ; pause = min(2*pause, redialMost) {
		conn, err := c.Dial(ctx, c.id)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		now, gone := c.now(ctx)
		if gone != nil || over(now) || now.Phase != spawner.Running {
			return nil, err
		}
	}
}

// greet says to the agent who is there.
func (c *client) greet(conn net.Conn, r *bufio.Reader) error {
	_ = conn.SetDeadline(time.Now().Add(helloTime)) // not all streams have one
	defer func() { _ = conn.SetDeadline(time.Time{}) }()
	if err := wire.WriteHello(conn, c.hello); err != nil {
		return err
	}
	c.hello.Fresh = false
	v, err := wire.ReadWelcome(r)
	c.cell.recalls(v.Cell)
	if err == nil && v.Error != "" {
		err = errs.New(errs.Unavailable, "the kernel's agent says: %s", shorten(v.Error))
	}
	return err
}

// carryDown gives the client what the kernel says.
func (c *client) carryDown(ctx context.Context, r *bufio.Reader) error {
	for {
		seq, err := c.carry(ctx, r)
		if err != nil {
			return err
		}
		c.sent.Store(seq)
		select {
		case c.fresh <- struct{}{}:
		default:
		}
	}
}

// carry gives the client the next message. A large one waits until there is room for it: slow clients of one user together hold so much and no
// more.
func (c *client) carry(ctx context.Context, r *bufio.Reader) (seq uint64, err error) {
	n, err := wire.Next(r)
	if err != nil {
		return 0, err
	}
	c.telling.Store(true)
	defer c.telling.Store(false)
	if n > smallMessage {
		if err := c.guest.down.Acquire(ctx, n); err != nil {
			return 0, err
		}
		defer c.guest.down.Release(n)
	}
	d, err := wire.ReadDown(r)
	if err != nil {
		return 0, err
	}
	c.cell.hears(d.Message)
	return d.Seq, c.deliver(ctx, d.Message)
}

// deliver gives the client one message, which travels in the new framing.
func (c *client) deliver(ctx context.Context, data []byte) error {
	if _, same := c.codec.(wire.V1); same {
		return c.write(ctx, true, data)
	}
	m, err := wire.DecodeV1(data)
	if err != nil {
		return fmt.Errorf("the kernel's agent: %w", err)
	}
	return c.send(ctx, m)
}

// carryUp gives the agent what the client says, and what the client has.
func (c *client) carryUp(ctx context.Context, conn io.Writer) error {
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-c.says:
			err = atOnce(conn, func(w io.Writer) error { return wire.WriteMessage(w, wire.EncodeV1(s.Message)) })
			c.guest.up.Release(s.size)
		case seq := <-c.has:
			err = atOnce(conn, func(w io.Writer) error { return wire.WriteAck(w, seq) })
		}
		if err != nil {
			return err
		}
	}
}

// atOnce has what is put written together. There is a buffer only for so long: most clients say nothing for hours.
func atOnce(to io.Writer, put func(io.Writer) error) error {
	w := bufio.NewWriter(to)
	if err := put(w); err != nil {
		return err
	}
	return w.Flush()
}
