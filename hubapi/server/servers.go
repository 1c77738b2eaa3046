package server

import (
	"context"
	"iter"
	"net/http"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/hub"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Servers start what a Hub's users would start on its pages. hub.Client does, with a token of the service's own there.
type Servers interface {
	Server(ctx context.Context, user, server string) (hub.Server, error)
	StartServer(ctx context.Context, user, server string, options map[string]any) (up bool, err error)
	Progress(ctx context.Context, user, server string) iter.Seq2[hub.Progress, error]
}

// startServer asks the caller's Hub for one of her own servers, and streams what the Hub tells of the start, then the session. The
// start goes on when the reader goes away; asking for the same again joins it.
//
// The Hub is asked, and not the engine, so that the Hub knows the server: its pages, its proxy and its limits hold for it.
func (s *Server) startServer(w http.ResponseWriter, r *http.Request) error {
	var req hubapi.ServerRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	c := callerOf(r.Context())
	servers, err := s.serversOf(c)
	if err != nil {
		return err
	}
	ctx, cancel := s.stream(r.Context())
	defer cancel()
	being, err := isBeingStarted(ctx, servers, string(c.User), req.Name)
	if err != nil {
		return err
	}
	out := startSSE(ctx, w)
	defer out.end()
	tell := func(p hubapi.Progress) { out.send(hubapi.EventProgress, 0, p) }
	if being {
		err = followStart(ctx, servers, string(c.User), req.Name, tell)
	} else {
		err = startAndFollow(ctx, servers, string(c.User), req, tell)
	}
	session := hubapi.Session{}
	if err == nil {
		session, err = s.runningSession(ctx, c, req.Name)
	}
	switch {
	case err != nil && ctx.Err() != nil: // the reader or the service has gone, not the start
	case err != nil:
		out.send(hubapi.EventError, 0, s.errorBody(r, err))
	default:
		out.send(hubapi.EventDone, 0, session)
	}
	return nil
}

// serversOf gives the Hub that starts servers for a caller: a user, with a token or out of a session.
func (s *Server) serversOf(c spawner.Caller) (Servers, error) {
	if c.User == "" || c.Spawner || c.Workload.OfJob() {
		return nil, errs.New(errs.Forbidden, "only a user starts sessions, with a token of the Hub or out of a session")
	}
	servers := s.hub(c.Hub).Servers
	if servers == nil {
		return nil, errs.New(errs.Missing, "the service has no token of its own at hub %s and starts nothing there", c.Hub).
			With("start the server on the Hub's pages; an administrator sets hubs.token_file for this")
	}
	return servers, nil
}

// isBeingStarted looks whether a start is there to be joined; a server that can neither be joined nor started is an error.
func isBeingStarted(ctx context.Context, servers Servers, user, name string) (bool, error) {
	now, err := servers.Server(ctx, user, name)
	switch {
	case errs.Is(err, errs.NotFound):
		return false, nil
	case err != nil:
		return false, err
	case now.Ready:
		return false, errs.New(errs.Conflict, "your server %q runs already", name).
			With("`slipway sessions` lists it; stop it first, or give another name")
	case now.Pending == "" || now.Pending == pendingSpawn:
		return now.Pending == pendingSpawn, nil
	default:
		return false, errs.New(errs.Conflict, "your server %q is not free yet: %s", name, now.Pending).With("try again in a moment")
	}
}

const (
	pendingSpawn = "spawn"
	beginEvery   = 200 * time.Millisecond
)

// startAndFollow asks for a start, and tells of it as soon as it has begun: the Hub answers only when it has waited for it a while.
func startAndFollow(ctx context.Context, servers Servers, user string, req hubapi.ServerRequest, tell func(hubapi.Progress)) error {
	asked := make(chan error, 1)
	go func() {
		_, err := servers.StartServer(ctx, user, req.Name, req.Options) // that it is up, the Hub says also of a start that failed at once
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
		if now, err := servers.Server(ctx, user, req.Name); err == nil && now.Pending == pendingSpawn {
			err := followStart(ctx, servers, user, req.Name, tell)
			<-asked // what went wrong was told better
			return err
		}
	}
}

// followStart tells what the Hub tells, until the server is up.
func followStart(ctx context.Context, servers Servers, user, name string, tell func(hubapi.Progress)) error {
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
func (s *Server) runningSession(ctx context.Context, c spawner.Caller, name string) (hubapi.Session, error) {
	all, err := s.cfg.Engine.List(ctx, spawner.Caller{Hub: c.Hub, User: c.User})
	if err != nil {
		return hubapi.Session{}, err
	}
	for _, w := range all {
		if w.Kind != spawner.Job && w.Owner == c.User && w.Name == name && w.Phase == spawner.Running {
			return s.wireSession(w), nil
		}
	}
	return hubapi.Session{}, errs.New(errs.NotFound, "the Hub has started server %q, but not here", name).With("look at it on the Hub's pages")
}
