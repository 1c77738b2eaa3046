package sshgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
	"slipway/internal/sshlink"
	"slipway/spawner"
)

// visitor is one connection of who has logged in.
type visitor struct {
	g      *Gate
	wire   *wire
	ssh    *ssh.ServerConn
	pass   Pass
	target string
	id     string
	log    *slog.Logger
	life   context.Context // the gate's
	ctx    context.Context // ends with the connection; its cause is a farewell, where there is something to say
	cancel context.CancelCauseFunc
	queue  chan *ssh.Request // of the whole connection, in their order
	work   sync.WaitGroup

	arriving context.Context // ends with ctx, or when she wants to wait no longer
	giveUp   context.CancelCauseFunc
	ready    chan struct{} // closed when all below is known
	far      *sshlink.Conn // nil: there is an error
	session  spawner.Workload
	err      error
	trail    *slog.Logger // log, with the session

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

// farewell is why a connection ends, for its user to read.
type farewell string

// Error gives the words.
func (f farewell) Error() string { return string(f) }

// errLeft is the cause where nobody is there to read any.
var errLeft = errors.New("the client has left")

// errInterrupted ends the wait for a start.
var errInterrupted = errs.New(errs.Conflict, "interrupted; nobody waits for the start any more")

func newVisitor(ctx context.Context, g *Gate, w *wire, c *ssh.ServerConn, pass Pass, target string) *visitor {
	v := &visitor{
		g: g, wire: w, ssh: c, pass: pass, target: target, id: newID(), life: ctx,
		log:   g.log.With("user", pass.Owner.User, "hub", pass.Owner.Hub, "key", pass.Key, "address", c.RemoteAddr().String()),
		queue: make(chan *ssh.Request, mostRequests), ready: make(chan struct{}), told: make(chan struct{}), parted: make(chan struct{}), lines: map[*line]bool{}, wanted: map[string]bool{},
	}
	v.ctx, v.cancel = context.WithCancelCause(ctx)
	v.arriving, v.giveUp = context.WithCancelCause(v.ctx)
	return v
}

// run serves the connection until it ends.
func (v *visitor) run(chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
	v.g.enter(v)
	if !v.g.cfg.Gatekeeper.Holds(v.pass) {
		v.end(withdrawn)
	}
	defer v.g.left(v)
	defer v.cancel(errLeft)
	v.work.Go(v.part)
	v.work.Go(v.arrive)
	v.work.Go(v.answer)
	v.work.Go(v.attend)
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

// take takes what the client asks for, until it is gone. What x/crypto hands over in two ways is brought into the order in which it came as
// far as it matters: channels that were asked for before a request are seen before it.
func (v *visitor) take(chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
	defer close(v.queue)
	for chans != nil || reqs != nil {
		select {
		case c, ok := <-chans:
			if !ok {
				chans = nil
				continue
			}
			v.open(c)
		case r, ok := <-reqs:
			if !ok {
				reqs = nil
				continue
			}
			for earlier := true; earlier && chans != nil; {
				select {
				case c, ok := <-chans:
					if !ok {
						chans = nil
						continue
					}
					v.open(c)
				default:
					earlier = false
				}
			}
			v.ask(r)
		}
	}
}

// ask puts a request of the whole connection behind those before it.
func (v *visitor) ask(r *ssh.Request) {
	if r.Type == "no-more-sessions@openssh.com" {
		v.mu.Lock()
		v.noMore = true
		v.mu.Unlock()
	}
	select {
	case v.queue <- r:
	default:
		v.end("too many requests wait for their answers")
	}
}

// answer answers the requests of the whole connection, one after the other: the protocol knows them by their order alone.
func (v *visitor) answer() {
	for r := range v.queue {
		ok, answer := v.request(r)
		if v.ctx.Err() != nil {
			continue
		}
		_ = r.Reply(ok, answer)
	}
}

func (v *visitor) request(r *ssh.Request) (ok bool, answer []byte) {
	switch r.Type {
	case "keepalive@openssh.com", "no-more-sessions@openssh.com":
		return true, nil
	case "hostkeys-prove-00@openssh.com":
		return v.proveKeys(r.Payload)
	case "tcpip-forward":
		v.want(kindFromTCP)
	case "streamlocal-forward@openssh.com":
		v.want(kindFromUnx)
	}
	select {
	case <-v.ready:
	case <-v.ctx.Done():
		return false, nil
	}
	if v.err != nil {
		return false, nil
	}
	ok, answer, err := v.far.Request(v.ctx, r.Type, r.WantReply, r.Payload)
	return ok && err == nil, answer
}

// want notes that the client is ready for channels of a kind.
func (v *visitor) want(kind string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wanted[kind] = true
}

// arrive finds the session, connects to it, and takes the channels that it asks for.
func (v *visitor) arrive() {
	begun := time.Now()
	v.announceKeys()
	v.session, v.err = v.find(v.arriving)
	if v.err == nil {
		v.far, v.err = sshlink.Dial(v.arriving, v.dial, sshlink.Login{
			ID: v.id, User: v.pass.Owner.User, Address: v.ssh.RemoteAddr().String(), Local: v.ssh.LocalAddr().String(), Key: v.pass.Key,
		})
	}
	if v.err != nil && v.arriving.Err() != nil && v.ctx.Err() == nil {
		v.err = context.Cause(v.arriving)
	}
	v.trail = v.log.With("session", string(v.session.ID))
	close(v.ready)
	if v.err != nil {
		v.log.Info("ssh refused", "reason", v.err.Error(), "target", brief(v.target))
		v.linger()
		return
	}
	defer v.far.Close()
	v.trail.Info("ssh login", "client", brief(string(v.ssh.ClientVersion())), "waited", time.Since(begun).Round(time.Millisecond))
	defer func() {
		v.trail.Info("ssh logout", "took", time.Since(begun).Round(time.Millisecond), "reason", context.Cause(v.ctx))
	}()
	v.g.cfg.Engine.Visit(v.session.ID, true)
	v.work.Go(v.watchSession)
	v.work.Go(v.watchLink)
	for {
		select {
		case i, ok := <-v.far.Opened():
			if !ok {
				<-v.ctx.Done()
				return
			}
			v.towards(i)
		case <-v.ctx.Done():
			return
		}
	}
}

// linger ends a connection that has got nowhere, when its user knows why.
func (v *visitor) linger() {
	select {
	case <-v.told:
		pause(v.ctx, time.Second) // the client leaves by itself
	case <-time.After(10 * time.Second):
	case <-v.ctx.Done():
	}
	v.cancel(errLeft)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// watchSession ends the connection with its session.
func (v *visitor) watchSession() {
	w, err := v.g.cfg.Engine.Await(v.ctx, v.caller(), v.session.ID, func(w spawner.Workload) bool {
		return w.Phase != spawner.Running || w.Launch != v.session.Launch
	})
	switch {
	case errs.Is(err, errs.NotFound):
		v.end("your session was removed")
	case err == nil:
		v.end(whyEnded(w))
	}
}

// whyEnded says why a session does not run any more.
func whyEnded(w spawner.Workload) string {
	switch {
	case w.Outcome == nil || w.Outcome.Reason == "":
		return "your session is being stopped"
	case w.Outcome.Remedy != "":
		return fmt.Sprintf("your session has ended: %s: %s", w.Outcome.Reason, w.Outcome.Remedy)
	}
	return "your session has ended: " + w.Outcome.Reason
}

// verdictTime is how long it may take until it is known why a session's agent is gone.
const verdictTime = 3 * time.Second

// watchLink ends the connection when the session is not reached any more.
func (v *visitor) watchLink() {
	select {
	case <-v.far.Done():
		pause(v.ctx, verdictTime)
		v.end("the connection to your session was lost; connect again")
	case <-v.ctx.Done():
	}
}

// Silence, after which a client is asked whether it is there, and after which it is not.
const (
	tick      = 15 * time.Second
	askAfter  = time.Minute
	deadAfter = 10 * time.Minute
)

// attend looks whether the client is still there, and shows it while it waits that the gateway is.
func (v *visitor) attend() {
	every := time.NewTicker(tick)
	defer every.Stop()
	answered := make(chan struct{}, 1)
	answered <- struct{}{}
	for {
		select {
		case <-every.C:
		case <-v.ctx.Done():
			return
		}
		switch silence := v.wire.silence(); {
		case silence > deadAfter:
			v.end("nothing was heard of the client")
		case v.waits():
			_, _, _ = v.ssh.SendRequest("keepalive@openssh.com", false, nil)
		case silence > askAfter:
			select {
			case <-answered:
				v.work.Go(func() {
					_, _, _ = v.ssh.SendRequest("keepalive@openssh.com", true, nil)
					answered <- struct{}{}
				})
			default:
			}
		}
	}
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

// end ends the connection, and tells its user why where there is a place for it.
func (v *visitor) end(why string) { v.cancel(farewell(why)) }

// withdrawn is what is said when a key or certificate is taken away.
const withdrawn = "the key or certificate that you came with was withdrawn"

// restart is what is said when the service ends.
const restart = "the service is being restarted; your session goes on: connect again"

// part closes the connection when it is over.
func (v *visitor) part() {
	defer close(v.parted)
	<-v.ctx.Done()
	why := context.Cause(v.ctx)
	if v.life.Err() != nil {
		why = farewell(restart)
	}
	if f, ok := errors.AsType[farewell](why); ok {
		said := make(chan struct{})
		v.work.Go(func() {
			defer close(said)
			v.sayGoodbye(string(f))
		})
		select {
		case <-said:
		case <-time.After(time.Second): // the client takes nothing any more
		}
	}
	_ = v.ssh.Close()
}
