package kernels

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"

	"github.com/coder/websocket"

	"slipway/kernels/wire"
)

// said is a message of a client's, which takes room until the kernel has it.
type said struct {
	wire.Message
	size int64
}

// intake is what is known of what a client says.
type intake struct {
	bytes   atomic.Int64 // that it has said
	waiting atomic.Bool  // it is not listened to just now, for want of room or because the kernel does not take what it has said
}

// hear reads one message of the client's, and takes room for it. Room for what is large is taken as it comes, so that nobody's word for a size
// makes room, and nobody has more than her share in the memory of the service.
func (c *client) hear(ctx context.Context) (form websocket.MessageType, data []byte, err error) {
	form, r, err := c.ws.Reader(ctx)
	if err != nil {
		return form, nil, err
	}
	var b bytes.Buffer
	var held int64
	for step := int64(smallMessage); ; step = int64(b.Len()) {
		if err := c.room(ctx, step); err != nil {
			c.guest.up.Release(held)
			return form, nil, err
		}
		held += step
		switch _, err := io.CopyN(&b, counted{r, &c.heard.bytes}, step); {
		case err == io.EOF:
			c.guest.up.Release(held - int64(b.Len()))
			return form, b.Bytes(), nil
		case err != nil:
			c.guest.up.Release(held)
			return form, nil, err
		}
	}
}

func (c *client) room(ctx context.Context, n int64) error {
	c.heard.waiting.Store(true)
	defer c.heard.waiting.Store(false)
	return c.guest.makeRoom(ctx, n)
}

// pass gives the bridge what the client has said, when it takes it.
func (c *client) pass(ctx context.Context, s said) {
	c.heard.waiting.Store(true)
	defer c.heard.waiting.Store(false)
	select {
	case c.says <- s:
	case <-ctx.Done():
		c.guest.up.Release(s.size)
	}
}

// forget gives back the room of what nobody will take any more.
func (c *client) forget() {
	for {
		select {
		case s := <-c.says:
			c.guest.up.Release(s.size)
		default:
			return
		}
	}
}

// counted counts what is read.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (r counted) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n.Add(int64(n))
	return n, err
}
