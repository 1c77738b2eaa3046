package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/feeds"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/metrics"
	"slipway/spawner"
)

// Environments are the environments that callers may use. A reference is a digest, the beginning of one, name,
// name:tag, or another user's owner/name:tag.
type Environments interface {
	EnvironmentReader
	EnvironmentEditor
	EnvironmentOffers
}

// EnvironmentReader shows environments.
type EnvironmentReader interface {
	List(ctx context.Context, c spawner.Caller, shared bool) ([]hubapi.Environment, error)
	Get(ctx context.Context, c spawner.Caller, ref string) (hubapi.Environment, error)
	Details(ctx context.Context, c spawner.Caller, ref string) (hubapi.EnvironmentDetails, error)
	History(ctx context.Context, c spawner.Caller, ref string) ([]hubapi.Environment, error)
	Diff(ctx context.Context, c spawner.Caller, old, now string) (hubapi.EnvironmentDiff, error)
	SBOM(ctx context.Context, c spawner.Caller, ref string) ([]byte, error)
	Usage(ctx context.Context, c spawner.Caller) (hubapi.EnvironmentUsage, error)
	Groups(ctx context.Context, c spawner.Caller) ([]string, error) // with which the caller can share
}

// EnvironmentEditor changes names and who may use them, and removes what nobody uses.
type EnvironmentEditor interface {
	Verify(ctx context.Context, c spawner.Caller, ref string) (hubapi.EnvironmentCheck, error)
	Tag(ctx context.Context, c spawner.Caller, ref string, r hubapi.TagRequest) (hubapi.Environment, error)
	Share(ctx context.Context, c spawner.Caller, ref string, s hubapi.Share) (hubapi.Environment, error)
	Remove(ctx context.Context, c spawner.Caller, ref string) (hubapi.Removed, error)
	Sweep(ctx context.Context, c spawner.Caller, dry bool) (hubapi.Swept, error)
}

// EnvironmentOffers says what a user's session may start from. Only a hub's Spawner may ask, for users of that hub.
type EnvironmentOffers interface {
	// For lists the user's own environments and what is shared with the user, the newest first.
	For(ctx context.Context, c spawner.Caller, user spawner.User) ([]hubapi.Environment, error)
	// Of finds one of these.
	Of(ctx context.Context, c spawner.Caller, user spawner.User, ref string) (hubapi.Environment, error)
}

func NoEnvironments() error {
	return errs.New(errs.Missing, "this service keeps no environments").With("the administrator runs `slipway doctor` to see what is missing")
}

// EnvironmentHandlers serve environments: those of a user, freezes, copies elsewhere.
type EnvironmentHandlers struct {
	lookup
	feeds        *feeds.Feeds
	environments Environments
	freeze       func(
		ctx context.Context, c spawner.Caller, id spawner.ID, r hubapi.FreezeRequest, progress func(hubapi.Progress),
	) (hubapi.Environment, error)
	shipper  Shipper
	exporter Exporter
	registry Credentials
	metrics  *metrics.Metrics
}

func (s *EnvironmentHandlers) listEnvironments(r *http.Request, _ web.None) (hubapi.Environments, error) {
	list := hubapi.Environments{Environments: []hubapi.Environment{}}
	if s.environments == nil {
		return list, nil
	}
	all, err := s.environments.List(r.Context(), web.CallerOf(r.Context()), r.URL.Query().Get("shared") == "true")
	list.Environments = append(list.Environments, all...)
	return list, err
}

// onEnvironment is a route of one environment.
func onEnvironment[In, Out any](
	s *EnvironmentHandlers,
	do func(Environments) func(ctx context.Context, c spawner.Caller, ref string, in In) (Out, error),
) func(*http.Request, In) (Out, error) {
	return func(r *http.Request, in In) (out Out, err error) {
		ref, err := web.Param(r, "ref")
		if err != nil {
			return out, err
		}
		if s.environments == nil {
			return out, NoEnvironments()
		}
		return do(s.environments)(r.Context(), web.CallerOf(r.Context()), ref, in)
	}
}

// asking fits a method that takes nothing but the reference.
func asking[Out any](
	do func(ctx context.Context, c spawner.Caller, ref string) (Out, error),
) func(context.Context, spawner.Caller, string, web.None) (Out, error) {
	return func(ctx context.Context, c spawner.Caller, ref string, _ web.None) (Out, error) {
		return do(ctx, c, ref)
	}
}

// environmentRoutes are the routes below /environments/{ref}.
func (s *EnvironmentHandlers) environmentRoutes(r chi.Router) {
	type all = Environments
	get := func(e all) func(context.Context, spawner.Caller, string, web.None) (hubapi.Environment, error) {
		return asking(e.Get)
	}
	details := func(e all) func(context.Context, spawner.Caller, string, web.None) (hubapi.EnvironmentDetails, error) {
		return asking(e.Details)
	}
	verify := func(e all) func(context.Context, spawner.Caller, string, web.None) (hubapi.EnvironmentCheck, error) {
		return asking(e.Verify)
	}
	remove := func(e all) func(context.Context, spawner.Caller, string, web.None) (hubapi.Removed, error) {
		return asking(e.Remove)
	}
	tag := func(e all) func(context.Context, spawner.Caller, string, hubapi.TagRequest) (hubapi.Environment, error) {
		return e.Tag
	}
	share := func(e all) func(context.Context, spawner.Caller, string, hubapi.Share) (hubapi.Environment, error) {
		return e.Share
	}
	r.Method("GET", "/", web.Serve(s.web, 200, onEnvironment(s, get)))
	r.Method("DELETE", "/", web.Serve(s.web, 200, audit.Told(onEnvironment(s, remove), auditRemoved)))
	r.Method("GET", "/details", web.Serve(s.web, 200, onEnvironment(s, details)))
	r.Method("GET", "/history", web.Serve(s.web, 200, onEnvironment(s, history)))
	r.Method("GET", "/diff", web.Serve(s.web, 200, s.environmentDiff))
	r.Method("GET", "/sbom", web.Serve(s.web, 200, onEnvironment(s, sbom)))
	r.Method("GET", "/export", web.GetOnly(s.web.Plain(s.exportEnvironment)))
	r.Method("POST", "/push", s.web.Plain(s.pushEnvironment))
	r.Method("POST", "/verify", web.Serve(s.web, 200, onEnvironment(s, verify)))
	r.Method("POST", "/tags", web.Serve(s.web, 200, onEnvironment(s, tag)))
	r.Method("POST", "/share", web.Serve(s.web, 200, audit.Told(onEnvironment(s, share), AuditShared)))
}

func history(e Environments) func(context.Context, spawner.Caller, string, web.None) (hubapi.Environments, error) {
	return func(ctx context.Context, c spawner.Caller, ref string, _ web.None) (hubapi.Environments, error) {
		all, err := e.History(ctx, c, ref)
		return hubapi.Environments{Environments: append([]hubapi.Environment{}, all...)}, err
	}
}

func sbom(e Environments) func(context.Context, spawner.Caller, string, web.None) (json.RawMessage, error) {
	return func(ctx context.Context, c spawner.Caller, ref string, _ web.None) (json.RawMessage, error) {
		return e.SBOM(ctx, c, ref)
	}
}

func (s *EnvironmentHandlers) environmentDiff(r *http.Request, _ web.None) (hubapi.EnvironmentDiff, error) {
	now, err := web.Param(r, "ref")
	if err != nil {
		return hubapi.EnvironmentDiff{}, err
	}
	old := r.URL.Query().Get("from")
	switch {
	case s.environments == nil:
		return hubapi.EnvironmentDiff{}, NoEnvironments()
	case old == "":
		return hubapi.EnvironmentDiff{}, errs.Bad("from", old, "name the environment to compare with")
	}
	return s.environments.Diff(r.Context(), web.CallerOf(r.Context()), old, now)
}

func (s *EnvironmentHandlers) environmentUsage(r *http.Request, _ web.None) (hubapi.EnvironmentUsage, error) {
	if s.environments == nil {
		return hubapi.EnvironmentUsage{}, NoEnvironments()
	}
	return s.environments.Usage(r.Context(), web.CallerOf(r.Context()))
}

func (s *EnvironmentHandlers) sweepEnvironments(r *http.Request, _ web.None) (hubapi.Swept, error) {
	if s.environments == nil {
		return hubapi.Swept{}, NoEnvironments()
	}
	return s.environments.Sweep(r.Context(), web.CallerOf(r.Context()), r.URL.Query().Get("dry") == "true")
}

// freeze streams the steps of a freeze, then its result. The freeze goes on when the reader goes away.
func (s *EnvironmentHandlers) freezeSession(w http.ResponseWriter, r *http.Request) error {
	var req hubapi.FreezeRequest
	if err := web.Decode(w, r, &req); err != nil {
		return err
	}
	found, err := s.Find(r, false)
	if err != nil {
		return err
	}
	if s.freeze == nil {
		return NoEnvironments()
	}
	ctx, cancel := s.web.Stream(r.Context())
	defer cancel()
	out := feeds.StartStream(ctx, w)
	defer out.End()
	began := time.Now()
	env, err := s.freeze(
		ctx, web.CallerOf(r.Context()), found.ID, req, func(p hubapi.Progress) { out.Send(hubapi.EventProgress, 0, p) },
	)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // the reader or the service has gone, not the freeze
	}
	s.metrics.Freeze(errs.RowOf(errs.KindOf(err)).Code, err == nil, time.Since(began))
	if err != nil {
		out.Send(hubapi.EventError, 0, s.web.ErrorBody(r, err))
		return nil
	}
	audit.Note(r.Context(), "a session is frozen", "session", found.ID, "environment", env.Digest)
	if len(env.Secrets) > 0 {
		audit.Note(
			r.Context(), "a freeze was allowed to publish secrets", "environment", env.Digest, "session", found.ID,
			"owner", found.Owner, "allowed", env.Secrets,
		)
	}
	out.Send(hubapi.EventDone, 0, env)
	return nil
}

func AuditShared(_ *http.Request, in hubapi.Share, out hubapi.Environment) (string, []any) {
	return "an environment is shared", []any{
		"environment", out.Digest, "name", out.Name, "tag", out.Tag, "with", in.With, "group", in.Group,
	}
}

func auditRemoved(r *http.Request, _ web.None, out hubapi.Removed) (string, []any) {
	ref, _ := web.Param(r, "ref")
	return "an environment's name is removed", []any{"environment", out.Digest, "removed", ref, "left", out.Names}
}

func auditSwept(_ *http.Request, _ web.None, out hubapi.Swept) (string, []any) {
	if out.Dry {
		return "", nil
	}
	return "environments that nobody uses are removed", []any{
		"environments", out.Environments, "bases", out.Bases, "bytes", out.Bytes,
	}
}
