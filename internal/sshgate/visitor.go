package sshgate

import (
	"context"
	"log/slog"
	"sync"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
	"slipway/internal/sshtunnel"
	"slipway/spawner"
)

// visitor is one connection of who has logged in.
type visitor struct {
	connection
	ssh    *ssh.ServerConn
	pass   Pass
	id     string
	log    *slog.Logger
	ctx    context.Context // ends with the connection; its cause is a farewell, where there is something to say
	cancel context.CancelCauseFunc
	queue  chan *ssh.Request // of the whole connection, in their order
	work   sync.WaitGroup

	giveUp  context.CancelCauseFunc // ends the wait for a start
	ready   chan struct{}           // closed when all below is known
	far     *sshtunnel.Conn         // nil: there is an error
	session spawner.Workload
	err     error
	trail   *slog.Logger // log, with the session

	parted chan struct{} // closed when the client's connection is

	told     chan struct{} // closed when she was told of the error
	tellOnce sync.Once

	mu     sync.Mutex // guards all below
	lines  map[*line]bool
	latest string          // what she was last told of a start
	wanted map[string]bool // kinds of channels that the client is ready to be asked for
	noMore bool            // sessions
}

// Bounds of one connection. They are far above what clients need.
const (
	mostLines    = 1024
	mostRequests = 256 // that wait for an answer
)

// errInterrupted ends the wait for a start.
var errInterrupted = errs.New(errs.Conflict, "interrupted; nobody waits for the start any more")

func newVisitor(ctx context.Context, g *Gate, w *wire, c *ssh.ServerConn, l *login) *visitor {
	v := &visitor{
		connection: l.connection, ssh: c, pass: *l.pass, id: newID(),
		log: g.log.With(
			"user", l.pass.Owner.User, "hub", l.pass.Owner.Hub, "key", l.pass.Key, "address", c.RemoteAddr().String(),
		),
		queue: make(chan *ssh.Request, mostRequests), ready: make(chan struct{}), told: make(chan struct{}),
		parted: make(chan struct{}),
		lines:  map[*line]bool{}, wanted: map[string]bool{},
	}
	v.ctx, v.cancel = context.WithCancelCause(ctx)
	return v
}

// run serves the connection until it ends. A start that it leaves behind is taken back for as long as service goes on.
func (v *visitor) run(service context.Context, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
	arriving, giveUp := context.WithCancelCause(v.ctx)
	v.giveUp = giveUp
	v.g.enter(v)
	v.checkPass()
	defer v.g.left(v)
	defer v.cancel(errLeft)
	v.work.Go(func() { v.part(service) })
	v.work.Go(func() { v.arrive(service, arriving) })
	v.work.Go(v.answer)
	v.work.Go(v.attend)
	v.work.Go(v.lookAgain)
	v.take(chans, reqs)
	v.cancel(errLeft)
	v.work.Wait()
}

func (g *Gate) enter(v *visitor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.visitors[v] = true
}

func (g *Gate) left(v *visitor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.visitors, v)
}

// record is where what happens is logged.
func (v *visitor) record() *slog.Logger {
	if v.waits() {
		return v.log
	}
	return v.trail
}

// waits reports whether it is not known yet where the visitor gets to.
func (v *visitor) waits() bool {
	select {
	case <-v.ready:
		return false
	default:
		return true
	}
}
