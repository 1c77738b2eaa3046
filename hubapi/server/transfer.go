package server

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/spawner"
)

// Shipper moves environments to and from other registries. Both end with ctx, and what had been done by then is not done again. They
// tell their first step when they know that the caller may, and nothing after they have returned.
type Shipper interface {
	Push(ctx context.Context, c spawner.Caller, ref string, r hubapi.PushRequest, progress func(hubapi.Progress)) (hubapi.Pushed, error)
	Pull(ctx context.Context, c spawner.Caller, r hubapi.PullRequest, progress func(hubapi.Progress)) (hubapi.Environment, error)
}

func (s *Server) pushEnvironment(w http.ResponseWriter, r *http.Request) error {
	var req hubapi.PushRequest
	if err := web.Decode(w, r, &req); err != nil {
		return err
	}
	ref, err := web.Param(r, "ref")
	if err != nil {
		return err
	}
	if s.cfg.Shipper == nil {
		return noEnvironments()
	}
	return steps(s, w, r, func(ctx context.Context, tell func(hubapi.Progress)) (hubapi.Pushed, error) {
		done, err := s.cfg.Shipper.Push(ctx, web.CallerOf(r.Context()), ref, req, tell)
		if err == nil {
			audit.Note(r.Context(), "an environment was pushed", "environment", done.Environment, "to", req.To)
		}
		return done, err
	})
}

func (s *Server) pullEnvironment(w http.ResponseWriter, r *http.Request) error {
	var req hubapi.PullRequest
	if err := web.Decode(w, r, &req); err != nil {
		return err
	}
	if s.cfg.Shipper == nil {
		return noEnvironments()
	}
	return steps(s, w, r, func(ctx context.Context, tell func(hubapi.Progress)) (hubapi.Environment, error) {
		env, err := s.cfg.Shipper.Pull(ctx, web.CallerOf(r.Context()), req, tell)
		if err == nil {
			audit.Note(r.Context(), "an environment was pulled", "environment", env.Digest, "from", req.From, "unsigned", req.Unsigned)
		}
		return env, err
	})
}

// steps streams how work goes on, then its result. What is refused before the first step is refused like any request.
func steps[T any](s *Server, w http.ResponseWriter, r *http.Request, work func(context.Context, func(hubapi.Progress)) (T, error)) error {
	ctx, cancel := s.Web.Stream(r.Context())
	defer cancel()
	var out *sse
	var once sync.Once
	begin := func() { once.Do(func() { out = startSSE(ctx, w) }) }
	result, err := work(ctx, func(p hubapi.Progress) {
		begin()
		out.send(hubapi.EventProgress, 0, p)
	})
	if err != nil && out == nil {
		return err
	}
	begin()
	defer out.end()
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil // the reader or the service has gone
	case err != nil:
		out.send(hubapi.EventError, 0, s.Web.ErrorBody(r, err))
	default:
		out.send(hubapi.EventDone, 0, result)
	}
	return nil
}
