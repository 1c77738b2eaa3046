package kernels

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/errs"
	"slipway/kernels/wire"
	"slipway/spawner"
)

const (
	partTime = 2 * time.Second // for a last word to a client
	never    = time.Duration(math.MaxInt64)
)

// client is one websocket, with what a kernel's client is told and says by it.
type client struct {
	*gateway
	ws       *websocket.Conn
	conn     net.Conn // below it
	codec    wire.Codec
	textOnly bool       // it can take no binary
	id       spawner.ID // of the kernel
	whose    spawner.Caller
	place    place
	accepted time.Time  // when its connection was made
	hello    wire.Hello // by which the kernel's agent knows it again
	guest    *guest
	repeats  bool   // it sends once more what may not have come, by itself
	leave    func() // gives back its place among the guest's
	cell     cell

	intake intake
	outbox outbox
	way    atomic.Pointer[stream] // to the kernel's agent; nil: there is none
	// under which cell it was told that this is not taken; nil: it was not, or all is well again
	worried atomic.Pointer[json.RawMessage]
	writing atomic.Bool // the kernel's next message is on its way to it
	looking errand      // whether it is there
	looks   *time.Timer // for the next time
	looked  time.Time   // when the last one began

	open     context.Context    // ends with the websocket, which ends with the context of whoever reads or writes
	deaf     bool               // nothing more can be written to it
	finished bool               // its kernel has ended
	gone     context.CancelFunc // ends what is done for it
	replaced atomic.Bool        // by one that came later
	ended    chan struct{}      // closed at its end
	left     []said             // then, if it was replaced: what it had said that was not taken
	page     *page              // which keeps that

	warnedOfChannel bool // somebody was told of what it says wrongly
	toldOfBinary    bool // it was told that it gets none
}

type acceptedKey struct{}

// Accepted keeps in a connection's context when it was made. It is for http.Server.ConnContext, which asks in the order
// in which connections are made. Without it none is taken for later than another.
func Accepted(ctx context.Context) context.Context {
	return context.WithValue(ctx, acceptedKey{}, time.Now())
}

func acceptedAt(r *http.Request) time.Time {
	at, _ := r.Context().Value(acceptedKey{}).(time.Time)
	return at
}

// channels is a client's websocket to one kernel. It is held while the kernel starts, and lasts for longer than its
// request.
func (g *gateway) channels(w http.ResponseWriter, r *http.Request, caller spawner.Caller) error {
	c, err := g.accept(w, r, caller)
	if c == nil {
		return err
	}
	if !g.Lines.serve(c.serve) {
		c.cut()
		c.leave()
	}
	return nil
}

// accept opens the websocket. Nobody: it is refused, and without an error it has been answered. What lasts as long as a
// websocket has no workload in its frame, here and below: it would have ten times the stack.
func (g *gateway) accept(w http.ResponseWriter, r *http.Request, caller spawner.Caller) (*client, error) {
	k, err := g.find(r, caller)
	if err != nil {
		return nil, err
	}
	name := r.URL.Query().Get("session_id")
	if len(name) > wire.ClientLimit {
		return nil, errs.Bad("session_id", errs.Shorten(name), "at most 256 bytes")
	}
	if name == "" {
		name = wire.NewUUID()
	}
	who, leave, err := g.guests.seat(caller, k.ID, g.Sockets)
	if err != nil {
		return nil, err
	}
	g.tickets.take(k.Kernel) // its owner is here
	// Pages of others cannot speak for a user: nobody is known by a cookie here.
	hands := &slim{ResponseWriter: w}
	ws, err := websocket.Accept(hands, r, &websocket.AcceptOptions{
		Subprotocols: []string{wire.V1Name}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		leave()
		return nil, nil // it has answered
	}
	ws.SetReadLimit(g.Message)
	g.Engine.Visit(k.ID, false)
	c := g.client(r, ws, k.ID, caller, name)
	c.conn, c.guest, c.leave = hands.conn, who, leave
	return c, nil
}

func (g *gateway) client(
	r *http.Request, ws *websocket.Conn, id spawner.ID, caller spawner.Caller, name string,
) *client {
	c := &client{
		gateway: g, ws: ws, codec: wire.Legacy{}, id: id, whose: caller,
		place:    place{person{caller.Hub, caller.User}, id, name},
		accepted: acceptedAt(r), hello: greeting(r, name), ended: make(chan struct{}),
	}
	c.hello.Takes, c.hello.Asks, c.repeats = true, true, c.hello.Once
	if !c.repeats {
		c.outbox.page = g.Journal.page(c.place)
	}
	if ws.Subprotocol() == wire.V1Name {
		c.codec = wire.V1{}
	} else {
		c.textOnly = proxied(r)
	}
	return c
}

// serve goes on until the client, the kernel or the service is gone. A client that comes again misses nothing.
func (c *client) serve(service context.Context) {
	defer c.leave()
	defer c.Traffic.open()()
	defer c.ws.CloseNow()
	defer c.cut()
	ctx, gone := context.WithCancel(service)
	defer gone()
	c.gone = gone
	before, late := c.places.arrive(c)
	if late { // whoever it was is here
		return
	}
	end := c.attend(ctx)
	c.inherit(ctx, before)
	c.part(service, ctx, c.relay(ctx))
	gone()
	end()
	c.settle(service)
}

// attend listens to the client, and looks whether it is there, until end. This does not end with the service: there is
// something to be said then.
func (c *client) attend(ctx context.Context) (end func()) {
	open, shut := context.WithCancel(context.WithoutCancel(ctx))
	c.open = open
	heard := make(chan struct{})
	go func() { defer close(heard); defer c.gone(); c.listen(open) }()
	c.looking.do = func() { c.look(open) }
	c.looks = time.AfterFunc(never, c.looking.start)
	c.looks.Reset(c.Ping)
	return func() {
		shut()
		c.looking.end()
		c.looks.Stop()
		<-heard
	}
}

// part tells the client why there is nothing to come, and closes the websocket.
func (c *client) part(service, ctx context.Context, err error) {
	if c.replaced.Load() {
		return
	}
	c.close(c.verdict(service, ctx, err))
}

// close ends the websocket with a word of why. That means to read first what the client is saying just now, which may
// be without end.
func (c *client) close(code websocket.StatusCode, why string) {
	late := time.AfterFunc(partTime, c.cut)
	defer late.Stop()
	_ = c.ws.Close(code, why)
}

// cut ends the websocket without a word.
func (c *client) cut() { _ = c.conn.Close() }

// verdict returns the words with which the websocket is closed.
func (c *client) verdict(service, ctx context.Context, err error) (websocket.StatusCode, string) {
	var no refusal
	switch now, gone := c.after(ctx); {
	case service.Err() != nil:
		c.refuseLeft()
		return websocket.StatusGoingAway, "the service is ending; come again"
	case ctx.Err() != nil:
		return websocket.StatusGoingAway, "the service does not hear from you"
	case errs.Is(gone, errs.NotFound) || gone == nil && over(now):
		c.finished = true
		c.bury(now)
		return websocket.StatusNormalClosure, "the kernel has ended"
	case errors.As(err, &no):
		c.remark(c.cell.last(), no.Error()+".")
		return websocket.StatusTryAgainLater, errs.Shorten(no.Error())
	}
	c.Logger.Debug("the way to a kernel is lost", "id", c.id, "error", err)
	return websocket.StatusServiceRestart, "the way to the kernel is lost; come again"
}

// seenWithin is how long after the way to a kernel was lost it may take to be seen that it has ended. Who comes again
// after that is told too, but not under her cell: the kernel's agent knew which it was.
const seenWithin = 5 * time.Second

// after returns what has become of a kernel to which the way is lost.
func (c *client) after(ctx context.Context) (spawner.Workload, error) {
	wait, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	k, err := c.Engine.Await(wait, c.whose, c.id, over)
	if errors.Is(err, context.DeadlineExceeded) {
		return c.now(ctx)
	}
	return k, err
}

func (c *client) now(ctx context.Context) (spawner.Workload, error) {
	return c.Engine.Await(ctx, c.whose, c.id, func(spawner.Workload) bool { return true })
}
