package kernels

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/errs"
	"slipway/kernels/wire"
	"slipway/spawner"
)

const (
	writeTime   = time.Minute // for one part of a message to a client
	writePart   = 1 << 20
	legacyLimit = 10<<20 - 64<<10
	clientLimit = 256 // bytes of a client's name for itself
	ahead       = 16  // messages of a client that are read before the kernel takes them
)

// client is one websocket, with what a kernel's client is told and says by it.
type client struct {
	*gateway
	ws      *websocket.Conn
	codec   wire.Codec
	texts   bool       // it can take no binary
	id      spawner.ID // of the kernel
	whose   spawner.Caller
	hello   wire.Hello // by which the kernel's agent knows it again
	says    chan said
	heard   intake
	guest   *guest
	sent    atomic.Uint64 // the number of the last message that was written to it
	telling atomic.Bool   // the kernel's next message is on its way to it
	has     chan uint64   // what it surely has: it answered a ping after that was written
	fresh   chan struct{} // something was written to it
	cell    cell
	warn    bool // somebody was told of what it says wrongly
	lacks   bool // it was told that it gets no binary
}

// channels is a client's websocket to one kernel. It is held while the kernel starts.
func (g *gateway) channels(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	cl, leave, err := g.accept(w, r, c)
	if cl == nil {
		return err
	}
	defer leave()
	defer cl.ws.CloseNow()
	defer g.Traffic.open()()
	cl.serve(r.Context())
	return nil
}

// accept opens the websocket. Nobody: it is refused, and without an error it has been answered. What lasts as long as a websocket has no
// workload in its frame, here and below: it would have ten times the stack.
func (g *gateway) accept(w http.ResponseWriter, r *http.Request, c spawner.Caller) (cl *client, leave func(), err error) {
	k, err := g.find(r, c)
	if err != nil {
		return nil, nil, err
	}
	name := r.URL.Query().Get("session_id")
	if len(name) > clientLimit {
		return nil, nil, errs.Bad("session_id", shorten(name), "at most 256 bytes")
	}
	if name == "" {
		name = wire.NewUUID()
	}
	who, leave, err := g.guests.seat(c, k.ID, g.Sockets)
	if err != nil {
		return nil, nil, err
	}
	g.tickets.take(k.Kernel) // its owner is here
	// Pages of others cannot speak for a user: nobody is known by a cookie here.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.V1Name}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		leave()
		return nil, nil, nil // it has answered
	}
	ws.SetReadLimit(g.Message)
	cl = &client{gateway: g, ws: ws, codec: wire.Legacy{}, id: k.ID, whose: c, hello: greeting(r, name), guest: who, says: make(chan said, ahead), has: make(chan uint64, 1), fresh: make(chan struct{}, 1)}
	if ws.Subprotocol() == wire.V1Name {
		cl.codec = wire.V1{}
	} else {
		cl.texts = proxied(r)
	}
	g.Engine.Visit(k.ID, false)
	return cl, leave, nil
}

// serve goes on until the client, the kernel or the way to it is gone. A client whose way is gone comes again, and misses nothing.
func (c *client) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{}, 2)
	go func() { defer cancel(); c.listen(ctx); done <- struct{}{} }()
	go func() { defer cancel(); c.probe(ctx); done <- struct{}{} }()
	up, err := c.rises(ctx)
	if up {
		err = c.bridge(ctx)
	}
	code, why := c.part(ctx, err)
	_ = c.ws.Close(code, why)
	cancel()
	<-done
	<-done
	c.forget()
}

// rises waits until the kernel is up, or over.
func (c *client) rises(ctx context.Context) (up bool, err error) {
	k, err := c.now(ctx)
	if err == nil && k.Phase != spawner.Running && !over(k) {
		c.tell(ctx, "status", map[string]string{"execution_state": "starting"})
	}
	k, err = c.Engine.Await(ctx, c.whose, c.id, func(w spawner.Workload) bool { return w.Phase == spawner.Running || over(w) })
	return err == nil && !over(k), err
}

func (c *client) now(ctx context.Context) (spawner.Workload, error) {
	return c.Engine.Await(ctx, c.whose, c.id, func(spawner.Workload) bool { return true })
}

// seenWithin is how long after the way to a kernel was lost it may take to be seen that it has ended. Who comes again after that is told too, but
// not under her cell: the kernel's agent knew which it was.
const seenWithin = 5 * time.Second

// after gives what has become of a kernel to which the way is lost.
func (c *client) after(ctx context.Context) (spawner.Workload, error) {
	wait, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	k, err := c.Engine.Await(wait, c.whose, c.id, over)
	if errors.Is(err, context.DeadlineExceeded) {
		return c.now(ctx)
	}
	return k, err
}

// part tells the client why there is nothing to come, if its kernel has ended. It gives the words with which the websocket is closed.
func (c *client) part(ctx context.Context, err error) (websocket.StatusCode, string) {
	if ctx.Err() != nil {
		return websocket.StatusGoingAway, "the service is ending, or does not hear from you"
	}
	if now, gone := c.after(ctx); errs.Is(gone, errs.NotFound) || gone == nil && over(now) {
		c.bury(ctx, now)
		return websocket.StatusNormalClosure, "the kernel has ended"
	}
	c.Logger.Debug("the way to a kernel is lost", "id", c.id, "error", err)
	return websocket.StatusServiceRestart, "the way to the kernel is lost; come again"
}

// bury tells a client that its kernel has ended, and why.
func (c *client) bury(ctx context.Context, k spawner.Workload) {
	c.tell(ctx, "stream", map[string]string{"name": "stderr", "text": "Slipway: " + whyOver(k) + "\n"})
	c.tell(ctx, "status", map[string]string{"execution_state": "dead"})
}

// tell sends a client a message of this service's own, as of its kernel.
func (c *client) tell(ctx context.Context, kind string, content any) {
	var parent json.RawMessage
	if kind == "stream" {
		parent = c.cell.last()
	}
	m, err := wire.New(wire.IOPub, kind, parent, content)
	if err == nil {
		err = c.send(ctx, m)
	}
	if err != nil {
		c.Logger.Debug("a kernel's client cannot be told", "error", err)
	}
}

// send writes a message to the client. One that the old framing's clients cannot take at once is written in pieces.
func (c *client) send(ctx context.Context, m wire.Message) error {
	pieces := []wire.Message{c.fit(ctx, m)}
	if _, old := c.codec.(wire.Legacy); old {
		pieces = wire.Split(pieces[0], legacyLimit)
	}
	for _, p := range pieces {
		binary, data, err := c.codec.Encode(p)
		if err != nil {
			c.Logger.Debug("a kernel's message cannot be given to a client", "error", err)
			continue
		}
		if err := c.write(ctx, binary, data); err != nil {
			return err
		}
	}
	return nil
}

// write writes a message in parts, so that one who reads slowly has time for each.
func (c *client) write(ctx context.Context, binary bool, data []byte) error {
	c.Traffic.tell(len(data))
	form := websocket.MessageText
	if binary {
		form = websocket.MessageBinary
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(writeTime, cancel)
	defer late.Stop()
	if len(data) <= writePart {
		return c.ws.Write(ctx, form, data)
	}
	w, err := c.ws.Writer(ctx, form)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(data, writePart) {
		late.Reset(writeTime)
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return w.Close()
}

// listen reads what the client says until it is gone.
func (c *client) listen(ctx context.Context) {
	for {
		form, data, err := c.hear(ctx)
		if errors.Is(err, errNoRoom) && ctx.Err() == nil {
			_ = c.ws.Close(websocket.StatusTryAgainLater, "your kernels do not take what you send; come again")
		}
		if err != nil {
			_ = c.ws.CloseNow() // a handshake would read on what is too large
			return
		}
		size := int64(len(data))
		c.Traffic.hear(len(data))
		m, err := c.codec.Decode(form == websocket.MessageBinary, data)
		if err == nil && m.Channel == wire.IOPub {
			err = wire.ErrChannel // nobody speaks there but the kernel
		}
		if err == nil {
			err = m.Check()
		}
		switch {
		case errors.Is(err, wire.ErrChannel):
			c.guest.up.Release(size)
			c.mind(err)
		case err != nil:
			c.guest.up.Release(size)
			_ = c.ws.Close(websocket.StatusInvalidFramePayloadData, shorten(err.Error()))
			return
		default:
			c.cell.says(m)
			c.pass(ctx, said{m, size})
		}
	}
}

// mind tells the administrator once of a client that speaks on a channel that there is not. Its message is dropped, as Jupyter does it.
func (c *client) mind(err error) {
	if !c.warn {
		c.Logger.Warn("a kernel's client speaks where nobody listens; dropped", "owner", c.whose.User, "error", err)
	}
	c.warn = true
}

// soonest is how much time lies between two questions to a client whether it has what was written to it: so long that lies with the agent, and
// would come once more if the client came again.
const soonest = 5 * time.Millisecond

// probe looks from time to time whether the client is there, and when something was written to it: at once, for JupyterLab comes again as soon
// as it reads that its kernel restarts, and a browser answers a ping before its page reads what came with it. What was written before it
// answers it surely has.
func (c *client) probe(ctx context.Context) {
	tick := time.NewTicker(c.Ping)
	defer tick.Stop()
	has, last := uint64(0), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.fresh:
			if !pause(ctx, time.Until(last.Add(soonest))) {
				return
			}
		case <-tick.C:
		}
		last = time.Now()
		before, heard := c.sent.Load(), c.heard.bytes.Load()
		wait, cancel := context.WithTimeout(ctx, c.Ping)
		err := c.ws.Ping(wait)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && (c.telling.Load() || c.heard.waiting.Load() || c.heard.bytes.Load() > heard) {
			continue // the question or the answer stands behind what is being said
		}
		if err != nil {
			return
		}
		if before == has {
			continue
		}
		select {
		case <-c.has: // the kernel has not listened; this says more
		default:
		}
		c.has <- before
		has = before
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
