package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// People says who users are on this host.
type People interface {
	// UID returns the number that a hub's user has here, if she has any. It does not wait.
	UID(ctx context.Context, hub string, user spawner.User) (int, bool)
	// Person says who a hub's user is: as whom her next session or job would run, or why none would.
	Person(ctx context.Context, hub string, user spawner.User) hubapi.Person
	// Numbers lists who has which number.
	Numbers(ctx context.Context) ([]hubapi.Number, error)
	// Release forgets a number. A user of whom sessions or jobs are there is refused.
	Release(ctx context.Context, principal string) (hubapi.Number, error)
}

// whoRoutes are the routes that say who is who.
func (s *API) whoRoutes(r chi.Router) {
	r.Method("GET", "/whoami", web.Serve(s.cfg.Web, 200, s.whoami))
	r.Method("GET", "/accounts", web.Serve(s.cfg.Web, 200, s.numbers))
	r.Method("DELETE", "/accounts/{principal}", web.Serve(s.cfg.Web, 200, audit.Told(s.release, auditReleased)))
}

// whoami says who the caller is, by what, and by which rule.
func (s *API) whoami(r *http.Request, _ web.None) (hubapi.Whoami, error) {
	c := web.CallerOf(r.Context())
	if c.User == "" {
		return hubapi.Whoami{}, errs.New(errs.Forbidden, "a hub's spawner is nobody").With(web.TokenRemedy)
	}
	out := hubapi.Whoami{
		User: string(c.User), Hub: c.Hub, Admin: c.Admin, Session: string(c.Workload), Subjects: []hubapi.Subject{},
		SSHKeys: []string{},
	}
	if s.cfg.People != nil {
		out.Person = s.cfg.People.Person(r.Context(), c.Hub, c.User)
	}
	if s.cfg.UserCredentials != nil {
		list, err := s.cfg.UserCredentials.List(r.Context(), s.cfg.Principal(c.Hub, c.User))
		if err != nil {
			return out, err
		}
		for _, e := range list {
			out.Subjects = append(
				out.Subjects, hubapi.Subject{CredentialHolder: convert.CredentialHolder(e), Rule: e.Rule},
			)
		}
	}
	if owner, err := s.SSHOwner(c); err == nil { // programs in sessions do not see what lets in
		for _, k := range s.cfg.SSH.Keys(owner) {
			out.SSHKeys = append(out.SSHKeys, k.Fingerprint)
		}
	}
	return out, nil
}

// mayNumber refuses whoever is no administrator.
func (s *API) mayNumber(c spawner.Caller) error {
	switch {
	case !Administers(c):
		return errs.New(errs.Forbidden, "only administrators see and forget users' numbers").
			With("use an administrator's own token, outside of sessions; `slipway whoami` shows yours")
	case s.cfg.People == nil:
		return errs.New(errs.Missing, "this service knows of no numbers")
	}
	return nil
}

func (s *API) numbers(r *http.Request, _ web.None) (hubapi.Numbers, error) {
	list := hubapi.Numbers{Accounts: []hubapi.Number{}}
	if err := s.mayNumber(web.CallerOf(r.Context())); err != nil {
		return list, err
	}
	all, err := s.cfg.People.Numbers(r.Context())
	list.Accounts = append(list.Accounts, all...)
	slices.SortFunc(list.Accounts, func(a, b hubapi.Number) int { return a.UID - b.UID })
	return list, err
}

func (s *API) release(r *http.Request, _ web.None) (hubapi.Number, error) {
	if err := s.mayNumber(web.CallerOf(r.Context())); err != nil {
		return hubapi.Number{}, err
	}
	principal, err := web.Param(r, "principal")
	if err != nil {
		return hubapi.Number{}, err
	}
	return s.cfg.People.Release(r.Context(), principal)
}

func auditReleased(_ *http.Request, _ web.None, out hubapi.Number) (string, []any) {
	return "a user's number is forgotten", []any{"of", out.User, "number", out.UID}
}
