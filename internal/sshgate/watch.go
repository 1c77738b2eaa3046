package sshgate

import (
	"fmt"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
)

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
		clock.Sleep(v.ctx, verdictTime)
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

// attend looks whether the client is still there, and shows it while it waits that the gateway is. It is asked from
// beside: a client that takes nothing would be waited for.
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
		case v.waits() || silence > askAfter:
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

// lookAgain asks from time to time whether the visitor would still be let in.
func (v *visitor) lookAgain() {
	every := time.NewTicker(knownFor)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-v.ctx.Done():
			return
		}
		v.welcome()
	}
}

// welcome ends the connection of who would not be let in any more.
func (v *visitor) welcome() {
	v.checkPass()
	if _, why := v.g.objection(v.ctx, v.pass.Owner, v.from); why != nil && v.ctx.Err() == nil {
		v.end(plain(why.Error()))
	}
}

// checkPass ends the connection when its pass does not hold any more.
func (v *visitor) checkPass() {
	if !v.g.cfg.Gatekeeper.Holds(v.pass) {
		v.end(withdrawn)
	}
}
