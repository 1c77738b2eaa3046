package kernels

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

const (
	firstRead = 512 // bytes: most of what clients say is not much longer
	// a websocket's reader gives no less than it is asked for, and it is to be seen that something comes
	stepRead = 4 << 10
)

// intake is what is known of what a client says.
type intake struct {
	bytes atomic.Int64 // that it has said
	// it is not listened to just now, for want of room or because the kernel does not take what it has said
	waiting atomic.Bool
}

// listen reads what the client says until it is gone.
func (c *client) listen(ctx context.Context) {
	for {
		form, data, err := c.hear(ctx)
		if errors.Is(err, errNoRoom) && ctx.Err() == nil {
			c.close(websocket.StatusTryAgainLater, "your kernels do not take what you send; come again")
		}
		if err != nil {
			c.cut() // a handshake would read on what is too large
			return
		}
		c.Traffic.hear(len(data))
		s, err := c.understand(ctx, form == websocket.MessageBinary, data)
		switch {
		case errors.Is(err, wire.ErrChannel):
			c.guest.up.Release(int64(len(data)))
			c.mind(err)
		case err != nil:
			c.guest.up.Release(int64(len(data)))
			c.close(websocket.StatusInvalidFramePayloadData, errs.Shorten(err.Error()))
			return
		default:
			c.pass(ctx, s)
		}
	}
}

// understand makes of a client's bytes what its kernel's agent is sent.
func (c *client) understand(ctx context.Context, binary bool, data []byte) (said, error) {
	size := int64(len(data))
	free, err := c.convert(ctx, size)
	if err != nil {
		return said{}, err
	}
	defer free()
	m, err := c.codec.Decode(binary, data)
	if err == nil && m.Channel == wire.IOPub {
		err = wire.ErrChannel // nobody speaks there but the kernel
	}
	if err == nil {
		err = m.Check()
	}
	if err != nil {
		return said{}, err
	}
	c.cell.says(m)
	if _, same := c.codec.(wire.V1); !same {
		data = wire.EncodeV1(m)
	}
	return said{data, size, time.Now()}, nil
}

// hear reads one message of the client's, and takes room for it. Room for what is large is taken as it comes, so that
// nobody's word for a size makes room, and nobody has more than her share in the memory of the service.
func (c *client) hear(ctx context.Context) (form websocket.MessageType, data []byte, err error) {
	form, r, err := c.ws.Reader(ctx)
	if err != nil {
		return form, nil, err
	}
	held := int64(smallMessage)
	if err := c.room(ctx, held); err != nil {
		return form, nil, err
	}
	data = make([]byte, firstRead)
	for at := 0; ; {
		n, err := io.ReadFull(counted{r, &c.intake.bytes}, data[at:])
		switch at += n; {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			c.guest.up.Release(held - int64(at))
			return form, fitted(data[:at]), nil
		case err != nil:
			c.guest.up.Release(held)
			return form, nil, err
		}
		more := int64(2 * len(data))
		if more > held {
			if err := c.room(ctx, more-held); err != nil {
				c.guest.up.Release(held)
				return form, nil, err
			}
			held = more
		}
		data = append(make([]byte, 0, more), data...)[:more]
	}
}

// fitted returns bytes without room for more.
func fitted(b []byte) []byte {
	if cap(b)-len(b) < firstRead {
		return b
	}
	return bytes.Clone(b)
}

func (c *client) room(ctx context.Context, n int64) error {
	c.intake.waiting.Store(true)
	defer c.intake.waiting.Store(false)
	return c.guest.makeRoom(ctx, n)
}

// pass has what the client has said sent, once there is a place for it.
func (c *client) pass(ctx context.Context, s said) {
	c.intake.waiting.Store(true)
	defer c.intake.waiting.Store(false)
	if c.outbox.put(ctx, s) != nil {
		c.guest.up.Release(s.size)
		return
	}
	if way := c.way.Load(); way != nil {
		way.sending.start()
	}
}

// mind tells the administrator once of a client that speaks on a channel that there is not. Its message is dropped, as
// Jupyter does it.
func (c *client) mind(err error) {
	if !c.warnedOfChannel {
		c.Logger.Warn("a kernel's client speaks where nobody listens; dropped", "owner", c.whose.User, "error", err)
	}
	c.warnedOfChannel = true
}

// counted counts what is read.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (r counted) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b[:min(len(b), stepRead)])
	r.n.Add(int64(n))
	return n, err
}
