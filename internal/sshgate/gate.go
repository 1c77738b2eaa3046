// Package sshgate is where users' ssh clients connect to. It proves who comes, finds her session or has it started, and
// pumps all channels and requests between the client and the session's agent, which serves them.
//
// Promises: who has not proved herself costs little, is bounded, and locks nobody out who has; a login reaches only
// sessions of the owner of its key; a running session's output is the session's alone, no byte of it is the gateway's;
// what is cut never looks like a clean end; a key that is withdrawn ends the connections that it has opened; no payload
// is ever logged. The package must not know what the channels are for, beyond what it has to refuse.
package sshgate

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/hubapi"
	"slipway/internal/backoff"
	"slipway/internal/loglimit"
	"slipway/internal/sshauth"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// Owner is a user of a hub, and Pass what somebody has proved.
type (
	Owner = sshauth.Owner
	Pass  = sshauth.Pass
)

// Gatekeeper knows who may come in.
type Gatekeeper interface {
	HostKeys() []ssh.Signer // with their certificates
	// Check finds whose a key or certificate is, if the login name begins with hers. It is asked also for keys that are
	// only offered.
	Check(login string, key ssh.PublicKey) (Pass, error)
	// Holds says whether a pass still does: what was withdrawn before the connection was known to OnRevoke's function
	// is seen by it.
	Holds(p Pass) bool
	Used(p Pass, from netip.Addr)
	// OnRevoke has a function called when something was withdrawn; gone says of a pass whether it does not hold any
	// more.
	OnRevoke(call func(gone func(Pass) bool))
	// Browser begins a login by the browser.
	Browser(ctx context.Context, login string, from netip.Addr) (Prompt, error)
}

// Prompt is a login by the browser that has begun.
type Prompt struct {
	Words string // what the user is to do
	Until time.Time
	Await func(ctx context.Context) (Pass, error)
}

// Network lets the users of groups come from networks.
type Network struct {
	Groups []string // "*": everybody
	From   []netip.Prefix
}

// Engine is what the gateway needs of engine.Manager.
type Engine interface {
	List(ctx context.Context, c spawner.Caller) ([]spawner.Workload, error)
	Await(ctx context.Context, c spawner.Caller, id spawner.ID, done func(spawner.Workload) bool) (spawner.Workload, error)
	Events(ctx context.Context, c spawner.Caller, id spawner.ID, launch string, after int64) (iter.Seq[spawner.Event], error)
	Visit(id spawner.ID, acted bool)
}

// Config is what a Gate needs. All fields without a stated default are required.
type Config struct {
	Gatekeeper Gatekeeper
	Engine     Engine
	// Offers returns what a user may choose from.
	Offers func(o Owner) catalog.Catalogue
	// Start and Stop are server.Server's StartFor and StopFor.
	Start func(ctx context.Context, c spawner.Caller, r hubapi.ServerRequest, tell func(hubapi.Progress)) (s hubapi.Session, asked bool, err error)
	Stop  func(ctx context.Context, c spawner.Caller, name string) error
	// Audit is server.Server's, of this door: it writes what a user has had done into the log. Nil: nobody does.
	Audit func(ctx context.Context, c spawner.Caller, action, what string, err error, which ...any)
	// Dial opens a stream to the ssh door of a session's agent.
	Dial func(ctx context.Context, id spawner.ID) (net.Conn, error)
	// Groups names the groups that a user is in, for Networks.
	Groups func(o Owner) []string
	// Known says whether the user's hub still knows her; an error: it could not be asked. Nil: nobody is asked.
	Known    func(ctx context.Context, o Owner) (bool, error)
	Browser  bool           // logins by the browser are let
	Networks []Network      // empty: users come from anywhere
	Proxies  []netip.Prefix // whose PROXY header is demanded and believed
	Deny     []netip.Prefix // that no forward is opened to
	AtOnce   int            // most connections of one user
	Logger   *slog.Logger
}

// Gate is the gateway.
type Gate struct {
	cfg     Config
	log     *slog.Logger
	outside *slog.Logger // for what strangers can cause
	base    ssh.ServerConfig
	deny    []string // Config.Deny, as it is told to sessions
	door    *entrance
	known   *known
	starts  *starts
	counts  counts
	work    sync.WaitGroup

	mu       sync.Mutex
	visitors map[*visitor]bool
	open     map[Owner]int
	streams  map[spawner.ID]int // of all connections to a session
}

// counts is what is counted since the start.
type counts struct {
	read, written atomic.Int64 // bytes of clients' connections
	mu            sync.Mutex
	logins        map[string]int // by outcome
	channels      map[string]int // by kind
}

// New makes a Gate.
func New(cfg Config) *Gate {
	outside := loglimit.Logger(cfg.Logger)
	g := &Gate{
		cfg: cfg, log: cfg.Logger, outside: outside, door: newEntrance(outside), known: newKnown(cfg.Known),
		starts:   newStarts(),
		visitors: map[*visitor]bool{}, open: map[Owner]int{}, streams: map[spawner.ID]int{},
	}
	g.counts.logins, g.counts.channels = map[string]int{}, map[string]int{}
	for _, p := range cfg.Deny {
		g.deny = append(g.deny, p.String())
	}
	g.base = serverConfig(cfg.Gatekeeper.HostKeys())
	cfg.Gatekeeper.OnRevoke(g.revoke)
	return g
}

// Run serves until ctx ends, and returns when nothing of it runs any more.
func (g *Gate) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer g.work.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	failed := backoff.Backoff{First: 10 * time.Millisecond, Most: time.Second}
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // no more files, most likely: they come back
			g.log.Warn("cannot accept ssh connections", "err", err)
			failed.Wait(ctx)
			continue
		}
		failed.Reset()
		if !g.door.approach(ctx) {
			_ = c.Close()
			return ctx.Err()
		}
		g.work.Go(func() { g.serve(ctx, c) })
	}
}

// serve serves one connection, which is on its way in, from its first byte to its last.
func (g *Gate) serve(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	keepAlive(raw)
	c, from, guest := g.receive(raw)
	if guest == nil {
		return
	}
	v, chans, reqs := g.login(ctx, c, from, guest)
	if v == nil {
		_ = raw.Close() // before another takes its place
	}
	g.door.leave(guest)
	if v == nil {
		return
	}
	defer g.release(v.pass.Owner)
	stop() // from here on the end of the service is said
	v.run(ctx, chans, reqs)
}

// receive brings a connection in that is on its way, or closes it.
func (g *Gate) receive(raw net.Conn) (c net.Conn, from netip.Addr, in *guest) {
	c, arrived, closing := raw, g.door.arrived, func() { _ = raw.Close() }
	from, err := addressOf(raw.RemoteAddr())
	if err == nil && g.isProxy(from) {
		arrived = g.door.aside(from, closing)
		c, from, err = unwrap(raw)
	}
	defer arrived()
	if err != nil {
		g.count("bad proxy")
		g.outside.Debug("ssh refused", "reason", err, "address", raw.RemoteAddr().String())
		closing()
		return nil, from, nil
	}
	in, ok := g.door.enter(from, closing)
	if !ok {
		g.count("too many")
		closing()
	}
	return c, from, in
}

// keepAlive has the kernel look after peers that are gone, for about as long as the gateway bears silence.
func keepAlive(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(
			net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 30 * time.Second, Count: 18},
		)
	}
}

// revoke ends the connections whose pass does not hold any more.
func (g *Gate) revoke(gone func(Pass) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for v := range g.visitors {
		if gone(v.pass) {
			v.end(withdrawn)
		}
	}
}

// count counts a login by its outcome.
func (g *Gate) count(outcome string) {
	g.counts.mu.Lock()
	defer g.counts.mu.Unlock()
	g.counts.logins[outcome]++
}
