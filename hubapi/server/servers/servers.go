// Package servers starts and stops the servers of users, as their Hubs know them: for requests of the API, and for the
// gateway of ssh.
//
// What it promises: it is the Hub that starts a server, so that the Hub's pages, proxy and limits hold for it; a start
// goes on when who asked for it goes away; nobody's start is taken back but by who has asked for it. What it must not
// do: start a session by itself, or decide who may have one.
package servers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/feeds"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Workloads has the sessions that servers are here. The engine has the contract of each method.
type Workloads interface {
	List(ctx context.Context, c spawner.Caller) ([]spawner.Workload, error)
	Stop(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	Remove(ctx context.Context, c spawner.Caller, id spawner.ID) error
}

// Config is what Servers need.
type Config struct {
	Web       *web.Core
	Hubs      *hubs.Set
	Convert   *convert.Converter
	Workloads Workloads
}

// Servers start and stop servers.
type Servers struct {
	web       *web.Core
	hubs      *hubs.Set
	convert   *convert.Converter
	workloads Workloads
}

// New makes a Servers.
func New(cfg Config) *Servers {
	return &Servers{web: cfg.Web, hubs: cfg.Hubs, convert: cfg.Convert, workloads: cfg.Workloads}
}

// stopTime bounds the wait for a server that is being stopped.
const stopTime = 2 * time.Minute

// Start serves a request for a server. It asks the caller's Hub for one of her own servers, and streams what the Hub tells of the start, then the
// session. The start goes on when the reader goes away; asking for the same again joins it.
//
// The Hub is asked, and not the engine, so that the Hub knows the server: its pages, its proxy and its limits hold for
// it.
func (s *Servers) Start(w http.ResponseWriter, r *http.Request) error {
	var req hubapi.ServerRequest
	if err := web.Decode(w, r, &req); err != nil {
		return err
	}
	c := web.CallerOf(r.Context())
	servers, err := s.serversOf(c)
	if err != nil {
		return err
	}
	ctx, cancel := s.web.Stream(r.Context())
	defer cancel()
	out := feeds.StartStream(ctx, w)
	defer out.End()
	session, _, err := s.bringUp(ctx, servers, c, req, func(p hubapi.Progress) { out.Send(hubapi.EventProgress, 0, p) })
	switch {
	case err != nil && ctx.Err() != nil: // the reader or the service has gone, not the start
	case err != nil:
		out.Send(hubapi.EventError, 0, s.web.ErrorBody(r, err))
	default:
		out.Send(hubapi.EventDone, 0, session)
	}
	return nil
}

// StartFor does for a user what Start does for her requests. asked says, beside an error too, that the Hub was
// asked for the start, and none joined that was under way.
func (s *Servers) StartFor(
	ctx context.Context, c spawner.Caller, req hubapi.ServerRequest, tell func(hubapi.Progress),
) (session hubapi.Session, asked bool, err error) {
	servers, err := s.serversOf(c)
	if err != nil {
		return hubapi.Session{}, false, err
	}
	ctx, cancel := s.web.Stream(ctx)
	defer cancel()
	return s.bringUp(ctx, servers, c, req, tell)
}

// StopFor takes the start of a user's server back, wherever it is; what runs by now stays: others may be in it. Of a
// session that never ran nothing is kept, not even its name. The Hub refuses to stop a server that it is starting, so
// that it is the engine that ends it, as soon as the Hub has asked for it; the Hub takes it for a start that has
// failed.
func (s *Servers) StopFor(ctx context.Context, c spawner.Caller, name string) error {
	servers, err := s.serversOf(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	for {
		w, known, err := s.activeSession(ctx, c, name)
		switch {
		case err != nil:
			return err
		case known && !convert.ComingUp(w.Phase):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case known && !w.Ran:
			return s.workloads.Remove(ctx, c, w.ID)
		case known:
			_, err := s.workloads.Stop(ctx, c, w.ID)
			return err
		}
		if now, err := servers.Server(ctx, string(c.User), name); errs.Is(err, errs.NotFound) ||
			err == nil && now.Pending != pendingSpawn {
			return nil
		}
		if !clock.Sleep(ctx, beginEvery) {
			return ctx.Err()
		}
	}
}

// bringUp starts a server, or joins its start, and gives its session when it is up.
func (s *Servers) bringUp(
	ctx context.Context, servers hubs.Servers, c spawner.Caller, req hubapi.ServerRequest, tell func(hubapi.Progress),
) (session hubapi.Session, asked bool, err error) {
	if asked, err = s.start(ctx, servers, c, req, tell); err == nil {
		session, err = s.runningSession(ctx, servers, c, req.Name)
	}
	return session, asked, err
}

// serversOf returns the Hub that starts servers for a caller: a user, with a token or out of a session.
func (s *Servers) serversOf(c spawner.Caller) (hubs.Servers, error) {
	if c.User == "" || c.Spawner || c.Workload.OfJob() {
		return nil, errs.New(errs.Forbidden, "only a user starts sessions, with a token of the Hub or out of a session")
	}
	servers := s.hubs.Named(c.Hub).Servers
	if servers == nil {
		return nil, errs.New(
			errs.Missing, "the service has no token of its own at hub %s and starts nothing there", c.Hub,
		).With("start the server on the Hub's pages; an administrator sets hubs.token_file for this")
	}
	return servers, nil
}

// start joins a start that is under way, or asks for one, and tells of it until the server is up.
func (s *Servers) start(
	ctx context.Context, servers hubs.Servers, c spawner.Caller, req hubapi.ServerRequest, tell func(hubapi.Progress),
) (asked bool, err error) {
	being, err := s.awaitFree(ctx, servers, c, req.Name, tell)
	switch {
	case err != nil:
		return false, err
	case being:
		return false, followStart(ctx, servers, string(c.User), req.Name, tell)
	}
	return true, s.startAndFollow(ctx, servers, c, req, tell)
}

// awaitFree waits until a server can be started, when an earlier one is being stopped. It reports whether a start is
// under way, which can be joined.
func (s *Servers) awaitFree(
	ctx context.Context, servers hubs.Servers, c spawner.Caller, name string, tell func(hubapi.Progress),
) (being bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTime, errs.New(
		errs.Unavailable, "%s is still being stopped", serverWords(name),
	).With("it goes on by itself; try again in a moment"))
	defer cancel()
	for {
		now, err := servers.Server(ctx, string(c.User), name)
		switch {
		case errs.Is(err, errs.NotFound):
			return false, nil
		case err != nil:
			return false, err
		case now.Pending == pendingSpawn:
			return true, nil
		case now.Pending == "":
			if free, err := s.isFree(ctx, c, name, now.Ready); free || err != nil {
				return false, err
			}
		}
		tell(hubapi.Progress{Stage: "waiting", Percent: -1, Message: serverWords(name) + " is being stopped"})
		if !clock.Sleep(ctx, beginEvery) {
			return false, context.Cause(ctx)
		}
	}
}

// isFree says whether a server with nothing pending can be started; one that runs is an error. The Hub looks after its
// servers twice a minute: of one that was stopped here since, it finds out when it is asked for the start.
func (s *Servers) isFree(ctx context.Context, c spawner.Caller, name string, ready bool) (bool, error) {
	if !ready {
		return true, nil
	}
	w, known, err := s.activeSession(ctx, c, name)
	switch {
	case err != nil || !known:
		return true, err
	case w.Want == spawner.WantRunning && w.Phase != spawner.Stopping:
		return false, errs.New(errs.Conflict, "%s runs already", serverWords(name)).
			With("`slipway sessions` lists it; stop it first, or give another name")
	}
	return false, nil
}

// activeSession finds the caller's session of a server that has not ended.
func (s *Servers) activeSession(
	ctx context.Context, c spawner.Caller, name string,
) (w spawner.Workload, known bool, err error) {
	all, err := s.workloads.List(ctx, spawner.Caller{Hub: c.Hub, User: c.User})
	if err != nil {
		return w, false, err
	}
	for _, w := range all {
		if w.Kind.HubServer() && w.Owner == c.User && w.Name == name && w.Phase.Active() {
			return w, true, nil
		}
	}
	return w, false, nil
}

// serverWords names a user's server to her.
func serverWords(name string) string {
	if name == "" {
		return "your default server"
	}
	return fmt.Sprintf("your server %q", name)
}

const (
	pendingSpawn = "spawn"
	beginEvery   = 200 * time.Millisecond
)

// startAndFollow asks for a start, and tells of it as soon as it has begun: the Hub answers only when it has waited for
// it a while.
func (s *Servers) startAndFollow(
	ctx context.Context, servers hubs.Servers, c spawner.Caller, req hubapi.ServerRequest, tell func(hubapi.Progress),
) error {
	user, asked := string(c.User), make(chan error, 1)
	go func() {
		// that it is up, the Hub says also of a start that failed at once
		_, err := servers.StartServer(ctx, user, req.Name, req.Options)
		asked <- err
	}()
	tick := time.NewTicker(beginEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-asked:
			if err != nil {
				return err
			}
			return followStart(ctx, servers, user, req.Name, tell)
		case <-tick.C:
		}
		// While the Hub looks whether an earlier one is still there, it says already that this one starts.
		if _, begun, err := s.activeSession(ctx, c, req.Name); err != nil || !begun {
			continue
		}
		if now, err := servers.Server(ctx, user, req.Name); err == nil && now.Pending == pendingSpawn {
			err := followStart(ctx, servers, user, req.Name, tell)
			<-asked // what went wrong was told better
			return err
		}
	}
}

// takenBack is how long a Hub may take to take back a start that failed. Meanwhile it says that nothing starts, and
// then why.
const takenBack = 30 * time.Second

// followStart tells what the Hub tells of a start that it has agreed to, until the server is up.
func followStart(ctx context.Context, servers hubs.Servers, user, name string, tell func(hubapi.Progress)) error {
	for deadline := time.Now().Add(takenBack); ; {
		err := followOnce(ctx, servers, user, name, tell)
		if !errs.Is(err, errs.Conflict) || time.Now().After(deadline) {
			return err
		}
		if !clock.Sleep(ctx, beginEvery) {
			return context.Cause(ctx)
		}
	}
}

func followOnce(ctx context.Context, servers hubs.Servers, user, name string, tell func(hubapi.Progress)) error {
	for p, err := range servers.Progress(ctx, user, name) {
		switch {
		case err != nil:
			return err
		case p.Failed:
			return errs.New(errs.Unavailable, "the start has failed: %.2000s", p.Message).With("`slipway sessions show ID` has the last lines of its output")
		case p.Ready:
			return nil
		}
		tell(hubapi.Progress{Stage: "starting", Percent: p.Percent, Message: p.Message})
	}
	return errs.New(errs.Unavailable, "the Hub says no more of the start").With("it goes on; `slipway sessions` shows it")
}

// runningSession finds the session of a server that is up.
func (s *Servers) runningSession(
	ctx context.Context, servers hubs.Servers, c spawner.Caller, name string,
) (hubapi.Session, error) {
	w, known, err := s.activeSession(ctx, c, name)
	switch {
	case err != nil:
		return hubapi.Session{}, err
	case known && w.Phase == spawner.Running:
		session := s.convert.Session(w)
		// it is up, whatever the Hub says of its address
		if now, err := servers.Server(ctx, string(c.User), name); err == nil {
			session.URL = now.FullURL
		}
		return session, nil
	}
	return hubapi.Session{}, errs.New(errs.NotFound, "the Hub has started %s, but not here", serverWords(name)).
		With("look at it on the Hub's pages")
}
