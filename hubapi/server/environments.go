package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/internal/errs"
	"slipway/spawner"
)

func noEnvironments() error {
	return errs.New(errs.Missing, "this service keeps no environments").With("the administrator runs `slipway doctor` to see what is missing")
}

func (s *Server) listEnvironments(r *http.Request, _ none) (hubapi.Environments, error) {
	list := hubapi.Environments{Environments: []hubapi.Environment{}}
	if s.cfg.Environments == nil {
		return list, nil
	}
	all, err := s.cfg.Environments.List(r.Context(), callerOf(r.Context()), r.URL.Query().Get("shared") == "true")
	list.Environments = append(list.Environments, all...)
	return list, err
}

// onEnvironment is a route of one environment.
func onEnvironment[In, Out any](
	s *Server, do func(Environments) func(ctx context.Context, c spawner.Caller, ref string, in In) (Out, error),
) func(*http.Request, In) (Out, error) {
	return func(r *http.Request, in In) (out Out, err error) {
		ref, err := param(r, "ref")
		if err != nil {
			return out, err
		}
		if s.cfg.Environments == nil {
			return out, noEnvironments()
		}
		return do(s.cfg.Environments)(r.Context(), callerOf(r.Context()), ref, in)
	}
}

// asking fits a method that takes nothing but the reference.
func asking[Out any](do func(ctx context.Context, c spawner.Caller, ref string) (Out, error)) func(context.Context, spawner.Caller, string, none) (Out, error) {
	return func(ctx context.Context, c spawner.Caller, ref string, _ none) (Out, error) { return do(ctx, c, ref) }
}

// environmentRoutes are the routes below /environments/{ref}.
func (s *Server) environmentRoutes(r chi.Router) {
	type all = Environments
	get := func(e all) func(context.Context, spawner.Caller, string, none) (hubapi.Environment, error) {
		return asking(e.Get)
	}
	details := func(e all) func(context.Context, spawner.Caller, string, none) (hubapi.EnvironmentDetails, error) {
		return asking(e.Details)
	}
	verify := func(e all) func(context.Context, spawner.Caller, string, none) (hubapi.EnvironmentCheck, error) {
		return asking(e.Verify)
	}
	remove := func(e all) func(context.Context, spawner.Caller, string, none) (hubapi.Removed, error) {
		return asking(e.Remove)
	}
	tag := func(e all) func(context.Context, spawner.Caller, string, hubapi.TagRequest) (hubapi.Environment, error) {
		return e.Tag
	}
	share := func(e all) func(context.Context, spawner.Caller, string, hubapi.Share) (hubapi.Environment, error) {
		return e.Share
	}
	r.Get("/", serve(s, 200, onEnvironment(s, get)))
	r.Delete("/", serve(s, 200, audit.Told(onEnvironment(s, remove), auditRemoved)))
	r.Get("/details", serve(s, 200, onEnvironment(s, details)))
	r.Get("/history", serve(s, 200, onEnvironment(s, history)))
	r.Get("/diff", serve(s, 200, s.environmentDiff))
	r.Get("/sbom", serve(s, 200, onEnvironment(s, sbom)))
	r.Get("/export", getOnly(s.plain(s.exportEnvironment)))
	r.Post("/push", s.plain(s.pushEnvironment))
	r.Post("/verify", serve(s, 200, onEnvironment(s, verify)))
	r.Post("/tags", serve(s, 200, onEnvironment(s, tag)))
	r.Post("/share", serve(s, 200, audit.Told(onEnvironment(s, share), auditShared)))
}

func history(e Environments) func(context.Context, spawner.Caller, string, none) (hubapi.Environments, error) {
	return func(ctx context.Context, c spawner.Caller, ref string, _ none) (hubapi.Environments, error) {
		all, err := e.History(ctx, c, ref)
		return hubapi.Environments{Environments: append([]hubapi.Environment{}, all...)}, err
	}
}

func sbom(e Environments) func(context.Context, spawner.Caller, string, none) (json.RawMessage, error) {
	return func(ctx context.Context, c spawner.Caller, ref string, _ none) (json.RawMessage, error) {
		return e.SBOM(ctx, c, ref)
	}
}

func (s *Server) environmentDiff(r *http.Request, _ none) (hubapi.EnvironmentDiff, error) {
	now, err := param(r, "ref")
	if err != nil {
		return hubapi.EnvironmentDiff{}, err
	}
	old := r.URL.Query().Get("from")
	switch {
	case s.cfg.Environments == nil:
		return hubapi.EnvironmentDiff{}, noEnvironments()
	case old == "":
		return hubapi.EnvironmentDiff{}, errs.Bad("from", old, "name the environment to compare with")
	}
	return s.cfg.Environments.Diff(r.Context(), callerOf(r.Context()), old, now)
}

func (s *Server) environmentUsage(r *http.Request, _ none) (hubapi.EnvironmentUsage, error) {
	if s.cfg.Environments == nil {
		return hubapi.EnvironmentUsage{}, noEnvironments()
	}
	return s.cfg.Environments.Usage(r.Context(), callerOf(r.Context()))
}

func (s *Server) sweepEnvironments(r *http.Request, _ none) (hubapi.Swept, error) {
	if s.cfg.Environments == nil {
		return hubapi.Swept{}, noEnvironments()
	}
	return s.cfg.Environments.Sweep(r.Context(), callerOf(r.Context()), r.URL.Query().Get("dry") == "true")
}

// freeze streams the steps of a freeze, then its result. The freeze goes on when the reader goes away.
func (s *Server) freeze(w http.ResponseWriter, r *http.Request) error {
	var req hubapi.FreezeRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	found, err := s.find(r, false)
	if err != nil {
		return err
	}
	if s.cfg.Freeze == nil {
		return noEnvironments()
	}
	ctx, cancel := s.stream(r.Context())
	defer cancel()
	out := startSSE(ctx, w)
	defer out.end()
	began := time.Now()
	env, err := s.cfg.Freeze(ctx, callerOf(r.Context()), found.ID, req, func(p hubapi.Progress) { out.send(hubapi.EventProgress, 0, p) })
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // the reader or the service has gone, not the freeze
	}
	s.cfg.Metrics.Freeze(errs.RowOf(errs.KindOf(err)).Code, err == nil, time.Since(began))
	if err != nil {
		out.send(hubapi.EventError, 0, s.errorBody(r, err))
		return nil
	}
	audit.Note(r.Context(), "a session is frozen", "session", found.ID, "environment", env.Digest)
	if len(env.Secrets) > 0 {
		audit.Note(r.Context(), "a freeze was allowed to publish secrets", "environment", env.Digest, "session", found.ID, "owner", found.Owner, "allowed", env.Secrets)
	}
	out.send(hubapi.EventDone, 0, env)
	return nil
}

func auditShared(_ *http.Request, in hubapi.Share, out hubapi.Environment) (string, []any) {
	return "an environment is shared", []any{"environment", out.Digest, "name", out.Name, "tag", out.Tag, "with", in.With, "group", in.Group}
}

func auditRemoved(r *http.Request, _ none, out hubapi.Removed) (string, []any) {
	ref, _ := param(r, "ref")
	return "an environment's name is removed", []any{"environment", out.Digest, "removed", ref, "left", out.Names}
}

func auditSwept(_ *http.Request, _ none, out hubapi.Swept) (string, []any) {
	if out.Dry {
		return "", nil
	}
	return "environments that nobody uses are removed", []any{"environments", out.Environments, "bases", out.Bases, "bytes", out.Bytes}
}
