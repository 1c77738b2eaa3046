package web

import (
	"context"
	"net/http"
	"strings"

	"slipway/hubapi/hub"
	"slipway/hubapi/server/audit"
	"slipway/internal/accesstokens"
	"slipway/internal/errs"
	"slipway/spawner"
)

type callerKey struct{}

// CallerOf returns who asks. Every route of the API lies behind identify, so a missing caller is a fault of the routes;
// the zero Caller may do nothing.
func CallerOf(ctx context.Context) spawner.Caller {
	c, _ := ctx.Value(callerKey{}).(spawner.Caller)
	return c
}

// identify is the one place that finds out who is calling.
func (s *Core) Authenticate(find func(*http.Request) (spawner.Caller, error)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := find(r)
			if err != nil {
				s.Refuse(w, r, err)
				return
			}
			Known(r.Context(), c)
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
		})
	}
}

// Known notes who asks, for the log.
func Known(ctx context.Context, c spawner.Caller) {
	TraceOf(ctx).Caller, audit.Of(ctx).Caller = audit.CallerName(c), c
}

// ByToken knows a hub's Spawner by its own token, and a user by an access token or by a token of the user's Hub.
func (s *Core) ByToken(r *http.Request) (spawner.Caller, error) {
	door := &audit.Of(r.Context()).Door
	*door = audit.DoorToken
	token, err := bearer(r.Header.Get("Authorization"))
	if err != nil {
		return spawner.Caller{}, err
	}
	for _, h := range s.hubs.Of(r.Context()) {
		if h.SpawnerToken.Equal(token) {
			*door = audit.DoorSpawner
			return spawner.Caller{Hub: h.Name, Spawner: true}, nil
		}
	}
	return s.byUser(r.Context(), token)
}

// Identify knows a user by a token, for handlers with other ways of giving one. ctx is that of a
// request to this server.
func (s *Core) Identify(ctx context.Context, token string) (spawner.Caller, error) {
	token, err := bearer("Bearer " + token)
	if err != nil {
		return spawner.Caller{}, err
	}
	c, err := s.byUser(ctx, token)
	if err == nil {
		TraceOf(ctx).Caller = audit.CallerName(c)
	}
	return c, err
}

// byUser knows a user by an access token of the service's own, or by a token of the user's Hub.
func (s *Core) byUser(ctx context.Context, token string) (spawner.Caller, error) {
	if s.cfg.Tokens == nil || !accesstokens.Is(token) {
		return s.byHub(ctx, token)
	}
	owner, err := s.cfg.Tokens.Find(ctx, token)
	if err != nil {
		return spawner.Caller{}, err
	}
	for _, h := range s.hubs.Of(ctx) {
		if h.Name == owner.Hub {
			return h.Caller(hub.Identity{Name: owner.User}), nil
		}
	}
	return spawner.Caller{}, errs.New(errs.Unauthorized, "the access token is of a user of another Hub").
		With("use the address of the service at which you have logged in")
}

// byHub asks the hubs in turn whose token it is. That one of them is down is told only if no other knows the token:
// else it would seem that the token is wrong.
func (s *Core) byHub(ctx context.Context, token string) (spawner.Caller, error) {
	var first error
	for _, h := range s.hubs.Of(ctx) {
		id, err := h.Identify(ctx, token)
		if err == nil {
			return h.Caller(id), nil
		}
		if first == nil || errs.Is(first, errs.Unauthorized) {
			first = err
		}
	}
	if first == nil {
		first = errs.New(errs.Unauthorized, "no hub is configured that could vouch for the token")
	}
	return spawner.Caller{}, first
}

// ByAgent knows a workload by the connection of its agent. It acts as its owner.
func (s *Core) ByAgent(r *http.Request) (spawner.Caller, error) {
	audit.Of(r.Context()).Door = audit.DoorSocket
	w, err := s.Workload(r.Context())
	if err != nil {
		return spawner.Caller{}, err
	}
	return spawner.Caller{User: w.Owner, Hub: w.Hub, Workload: w.ID}, nil
}

// Service is who the server is when it looks up a workload for itself.
func Service() spawner.Caller { return spawner.Caller{System: true} }

// Workload returns the workload through whose agent the request came.
func (s *Core) Workload(ctx context.Context) (spawner.Workload, error) {
	id := workloadOf(ctx)
	if id == "" {
		return spawner.Workload{}, errs.New(errs.Unauthorized, "the connection belongs to no session or job")
	}
	w, err := s.cfg.Engine.Get(ctx, Service(), id)
	if errs.Is(err, errs.NotFound) {
		return spawner.Workload{}, errs.New(errs.Unauthorized, "the session or job %s is not known any more", id)
	}
	return w, err
}

// TokenRemedy says how a user comes to a token.
const TokenRemedy = "log in with `slipway login`, or send `Authorization: Bearer <token>` with a token of your Hub (its menu: Token)"

// tokenLimit is the most bytes of a token.
const tokenLimit = 4096

// bearer takes the token out of an Authorization header: "Bearer T", or as JupyterHub has it "token T".
func bearer(header string) (string, error) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	known := strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "token")
	switch {
	case header == "":
		return "", errs.New(errs.Unauthorized, "nobody is known to be calling").With(TokenRemedy)
	case !known || token == "" || len(token) > tokenLimit || strings.ContainsFunc(
		token, func(r rune) bool { return r <= ' ' || r > '~' },
	):
		return "", errs.New(errs.Unauthorized, "the Authorization header holds no token").With(TokenRemedy)
	}
	return token, nil
}

// WithCaller lets what a page does be logged like what the API does.
func WithCaller(ctx context.Context, c spawner.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// IsBasic reports whether a request brings Basic credentials, readable or not.
func IsBasic(r *http.Request) bool {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Basic")
}
