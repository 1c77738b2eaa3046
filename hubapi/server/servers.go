package server

import (
	"context"
	"iter"
	"net/http"

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
	if err := begin(ctx, servers, string(c.User), req); err != nil {
		return err
	}
	out := startSSE(ctx, w)
	defer out.end()
	err = followStart(ctx, servers, string(c.User), req.Name, func(p hubapi.Progress) { out.send(hubapi.EventProgress, 0, p) })
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

// begin asks for the start, if it is not being made already.
func begin(ctx context.Context, servers Servers, user string, req hubapi.ServerRequest) error {
	now, err := servers.Server(ctx, user, req.Name)
	switch {
	case err != nil && !errs.Is(err, errs.NotFound):
		return err
	case now.Ready:
		return errs.New(errs.Conflict, "your server %q runs already", req.Name).
			With("`slipway sessions` lists it; stop it first, or give another name")
	case now.Pending == "spawn":
		return nil
	case now.Pending != "":
		return errs.New(errs.Conflict, "your server %q is not free yet: %s", req.Name, now.Pending).With("try again in a moment")
	}
	_, err = servers.StartServer(ctx, user, req.Name, req.Options) // that it is up, the Hub says also of a start that failed at once
	return err
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
