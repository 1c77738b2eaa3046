package sshgate

import (
	"context"
	"net"
	"strings"
	"unicode"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/internal/sshauth"
	"slipway/spawner"
)

func (v *visitor) caller() spawner.Caller {
	return spawner.Caller{Hub: v.pass.Owner.Hub, User: spawner.User(v.pass.Owner.User)}
}

func (v *visitor) dial(ctx context.Context) (net.Conn, error) { return v.g.cfg.Dial(ctx, v.session.ID) }

// rounds is how often a place is looked for: what was found may have changed when its turn has come.
const rounds = 3

// find gives the session that the visitor gets to, running.
func (v *visitor) find(ctx context.Context) (spawner.Workload, error) {
	for range rounds {
		p, err := v.look(ctx)
		if err != nil {
			return spawner.Workload{}, err
		}
		if p.join != nil && p.join.Phase == spawner.Running {
			return *p.join, nil
		}
		if err := v.await(ctx, p); err != nil {
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
	p, err := choose(v.target, all, v.g.cfg.Profiles)
	if err == nil && v.pass.Session != sshauth.AnySession && v.pass.Session != p.server() {
		err = errs.New(errs.Forbidden, "your certificate is for the session %.60q alone", v.pass.Session).With("make one for this session, or for all: `slipway ssh login`")
	}
	return p, err
}

// await waits for a session that does not run yet, and has it started where it is not. A start that the gateway has asked for is taken back
// when all who wait for it here have given up.
func (v *visitor) await(ctx context.Context, p place) error {
	key, asked, err := startKey{v.pass.Owner, p.server()}, false, error(nil)
	st := v.g.starts.join(key)
	defer func() {
		if v.g.starts.leave(key, st, asked, ctx.Err() == nil) && v.life.Err() == nil {
			v.g.work.Go(func() { v.takeBack(p.server()) })
		}
	}()
	if p.join != nil {
		err = v.follow(ctx, *p.join)
		return err
	}
	v.tell("your session is being started")
	_, asked, err = v.g.cfg.Start(ctx, v.caller(), p.start, func(p hubapi.Progress) { v.tell(p.Message) })
	if errs.Is(err, errs.Conflict) && ctx.Err() == nil { // somebody else was faster
		return nil
	}
	return err
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
		return now.Phase == spawner.Running || now.Want != spawner.WantRunning || !now.Phase.Active() || now.Launch != w.Launch
	})
	if err == nil && w.Phase != spawner.Running && w.Outcome != nil && w.Outcome.Failed {
		return errs.New(errs.Unavailable, "the start has failed: %s", w.Outcome.Reason).With(w.Outcome.Remedy)
	}
	return err
}

// takeBack ends a start that nobody waits for any more.
func (v *visitor) takeBack(server string) {
	if err := v.g.cfg.Stop(v.life, v.caller(), server); err != nil && v.life.Err() == nil {
		v.log.Warn("cannot take a start back that nobody waits for", "server", server, "err", err)
	}
}

// tell tells of the start, once of each step.
func (v *visitor) tell(message string) {
	message = plain(message)
	v.mu.Lock()
	defer v.mu.Unlock()
	if message == "" || message == v.latest {
		return
	}
	v.latest = message
	for l := range v.lines {
		l.report(message)
	}
}

// plain takes out what a terminal would act on.
func plain(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
}

// words says an error to its user. What only the site's people can act on is in the log.
func (v *visitor) words(err error) string {
	if errs.Is(err, errs.Internal) {
		return "the session cannot be reached now; your administrator finds the reason in the service's log"
	}
	return plain(err.Error())
}
