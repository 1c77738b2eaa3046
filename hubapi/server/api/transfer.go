package api

import (
	"context"
	"net/http"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/feeds"
	"slipway/hubapi/server/web"
	"slipway/spawner"
)

// Shipper moves environments to and from other registries. Both end with ctx, and what had been done by then is not
// done again. They tell their first step when they know that the caller may, and nothing after they have returned.
type Shipper interface {
	Push(ctx context.Context, c spawner.Caller, ref string, r hubapi.PushRequest, progress func(hubapi.Progress)) (hubapi.Pushed, error)
	Pull(ctx context.Context, c spawner.Caller, r hubapi.PullRequest, progress func(hubapi.Progress)) (hubapi.Environment, error)
}

func (s *EnvironmentHandlers) pushEnvironment(w http.ResponseWriter, r *http.Request) error {
	var req hubapi.PushRequest
	if err := web.Decode(w, r, &req); err != nil {
		return err
	}
	ref, err := web.Param(r, "ref")
	if err != nil {
		return err
	}
	if s.shipper == nil {
		return NoEnvironments()
	}
	return feeds.Work(s.feeds, w, r, func(ctx context.Context, tell func(hubapi.Progress)) (hubapi.Pushed, error) {
		done, err := s.shipper.Push(ctx, web.CallerOf(r.Context()), ref, req, tell)
		if err == nil {
			audit.Note(r.Context(), "an environment was pushed", "environment", done.Environment, "to", req.To)
		}
		return done, err
	})
}

func (s *EnvironmentHandlers) pullEnvironment(w http.ResponseWriter, r *http.Request) error {
	var req hubapi.PullRequest
	if err := web.Decode(w, r, &req); err != nil {
		return err
	}
	if s.shipper == nil {
		return NoEnvironments()
	}
	return feeds.Work(s.feeds, w, r, func(
		ctx context.Context, tell func(hubapi.Progress),
	) (hubapi.Environment, error) {
		env, err := s.shipper.Pull(ctx, web.CallerOf(r.Context()), req, tell)
		if err == nil {
			audit.Note(
				r.Context(), "an environment was pulled", "environment", env.Digest, "from", req.From, "unsigned",
				req.Unsigned,
			)
		}
		return env, err
	})
}
