package sshgate

import (
	"context"
	"errors"
	"net"
	"time"

	"slipway/hubapi"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/sshauth"
	"slipway/internal/sshtunnel"
	"slipway/spawner"
)

func (v *visitor) caller() spawner.Caller {
	return spawner.Caller{Hub: v.pass.Owner.Hub, User: spawner.User(v.pass.Owner.User)}
}

func (v *visitor) dial(ctx context.Context) (net.Conn, error) { return v.g.cfg.Dial(ctx, v.session.ID) }

// rounds is how often a place is looked for: what was found may have changed when its turn has come.
const rounds = 3

// find returns the session that the visitor gets to, running.
func (v *visitor) find(service, ctx context.Context) (spawner.Workload, error) {
	for range rounds {
		p, err := v.look(ctx)
		if err != nil {
			return spawner.Workload{}, err
		}
		if p.join != nil && p.join.Phase == spawner.Running {
			return *p.join, nil
		}
		if err := v.await(service, ctx, p); err != nil {
			return spawner.Workload{}, err
		}
	}
	return spawner.Workload{}, errs.New(errs.Unavailable, "your session was started, and is gone again").With("`slipway sessions` says more")
}

// look says where the visitor gets to, as things are.
func (v *visitor) look(ctx context.Context) (place, error) {
	all, err := v.g.cfg.Engine.List(ctx, v.caller())
	if err != nil {
		return place{}, err
	}
	return v.g.where(v.pass, v.target, all)
}

// where says where a pass and a target lead, among all sessions of its owner.
func (g *Gate) where(pass Pass, target string, all []spawner.Workload) (place, error) {
	p, err := choose(target, all, g.cfg.Offers(pass.Owner))
	if err == nil && pass.Session != sshauth.AnySession && pass.Session != p.server() {
		err = errs.New(errs.Forbidden, "your certificate is for the session %.60q alone", pass.Session).With("make one for this session, or for all: `slipway ssh login`")
	}
	return p, err
}

// await waits for a session that does not run yet, and has it started where it is not. A start that the gateway has
// asked for is taken back when all who wait for it here have given up.
func (v *visitor) await(service, ctx context.Context, p place) error {
	key, asked, err := startKey{v.pass.Owner, p.server()}, false, error(nil)
	st := v.g.starts.join(key)
	defer func() {
		how := leaving{asked: asked, over: ctx.Err() == nil, lost: errors.Is(context.Cause(ctx), errLeft)}
		if ctx, r := v.g.starts.leave(service, key, st, how); r != nil {
			v.g.work.Go(func() { v.g.takeBack(ctx, r, v.takeBack, v.log) })
		}
	}()
	if p.join != nil {
		err = v.follow(ctx, *p.join)
		return err
	}
	if p.again != nil {
		p.start.Options = v.g.cfg.Offers(v.pass.Owner).Again(p.again.Spec)
	}
	v.tell("your session is being started")
	_, asked, err = v.g.cfg.Start(ctx, v.caller(), p.start, func(p hubapi.Progress) { v.tell(p.Message) })
	if asked {
		v.audit(ctx, "ssh start", "a session is started", err, "server", p.server())
	}
	if errs.Is(err, errs.Conflict) && ctx.Err() == nil { // somebody else was faster
		return nil
	}
	return err
}

// takeBack has a start of the visitor's taken back.
func (v *visitor) takeBack(ctx context.Context, server string) {
	err := v.g.cfg.Stop(ctx, v.caller(), server)
	v.audit(
		ctx, "ssh start taken back", "a start that nobody waits for is taken back, unless it runs by now", err,
		"server", server,
	)
}

// audit writes down what was done for the visitor.
func (v *visitor) audit(ctx context.Context, action, what string, err error, which ...any) {
	if v.g.cfg.Audit != nil {
		v.g.cfg.Audit(
			ctx, v.caller(), action, what, err,
			append(which, "key", v.pass.Key, "address", v.ssh.RemoteAddr().String())...,
		)
	}
}

// follow waits for a start that is under way.
func (v *visitor) follow(ctx context.Context, w spawner.Workload) error {
	events, err := v.g.cfg.Engine.Events(ctx, v.caller(), w.ID, w.Launch, 0)
	if err != nil {
		return err
	}
	for e := range events {
		v.tell(e.Message)
	}
	w, err = v.g.cfg.Engine.Await(ctx, v.caller(), w.ID, func(now spawner.Workload) bool {
		return now.Phase == spawner.Running || now.Want != spawner.WantRunning || !now.Phase.Active() ||
			now.Launch != w.Launch
	})
	if err == nil && w.Phase != spawner.Running && w.Outcome != nil && w.Outcome.Failed {
		return errs.New(errs.Unavailable, "the start has failed: %s", w.Outcome.Reason).With(w.Outcome.Remedy)
	}
	return err
}

// arrive finds the session and connects to it, which ends with arriving, and takes the channels that it asks for.
func (v *visitor) arrive(service, arriving context.Context) {
	begun := time.Now()
	v.announceKeys()
	if v.session, v.err = v.find(service, arriving); v.err == nil {
		defer v.connect(arriving)()
	}
	if v.err != nil && arriving.Err() != nil && v.ctx.Err() == nil {
		v.err = context.Cause(arriving)
	}
	v.trail = v.log.With("session", string(v.session.ID))
	if uid := v.session.Account.UID; uid != 0 {
		v.trail = v.trail.With("uid", uid)
	}
	close(v.ready)
	if v.err != nil {
		v.log.Info("ssh refused", "reason", v.err.Error(), "target", brief(v.target))
		v.linger()
		return
	}
	defer v.far.Close()
	v.trail.Info(
		"ssh login", "client", brief(string(v.ssh.ClientVersion())), "waited",
		time.Since(begun).Round(time.Millisecond),
	)
	defer func() {
		v.trail.Info("ssh logout", "took", time.Since(begun).Round(time.Millisecond), "reason", context.Cause(v.ctx))
	}()
	if !v.far.Heeds() {
		v.trail.Info("ssh forwards by name are not held to ssh.denied_networks, but for the link's own addresses: the session's agent is older than that",
			"remedy", "a session that is started anew holds to it")
	}
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

// connect connects to the session. What it gives back is called at the end.
func (v *visitor) connect(ctx context.Context) (release func()) {
	id := v.session.ID
	if !v.g.takeStream(id) {
		v.err = errTooMany
		return func() {}
	}
	v.far, v.err = sshtunnel.Dial(ctx, v.dial, sshtunnel.Login{
		ID: v.id, User: v.pass.Owner.User, Address: v.ssh.RemoteAddr().String(), Local: v.ssh.LocalAddr().String(),
		Key: v.pass.Key,
	}, v.g.deny)
	return func() { v.g.releaseStream(id) }
}

// tellTime is how long a connection that has got nowhere waits for a channel in which its user can be told why.
const tellTime = time.Minute

// linger ends a connection that has got nowhere, when its user knows why.
func (v *visitor) linger() {
	select {
	case <-v.told:
		clock.Sleep(v.ctx, time.Second) // the client leaves by itself
	case <-time.After(tellTime):
	case <-v.ctx.Done():
	}
	v.cancel(errLeft)
}
