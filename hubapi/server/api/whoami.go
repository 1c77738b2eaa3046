package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/offers"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/sshauth"
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

// UserHandlers serve who the caller is, what she may have, and who has which number.
type UserHandlers struct {
	web         *web.Core
	offers      *offers.Offers
	ssh         *SSHHandlers
	authority   *sshauth.Authority
	people      People
	quota       func(ctx context.Context, c spawner.Caller) (hubapi.Quotas, error)
	credentials UserCredentials
	principal   func(hub string, user spawner.User) string
}

// whoRoutes are the routes that say who is who.
func (s *UserHandlers) whoRoutes(r chi.Router) {
	r.Method("GET", "/whoami", web.Serve(s.web, 200, s.whoami))
	r.Method("GET", "/accounts", web.Serve(s.web, 200, s.numbers))
	r.Method("DELETE", "/accounts/{principal}", web.Serve(s.web, 200, audit.Told(s.release, auditReleased)))
}

// whoami says who the caller is, by what, and by which rule.
func (s *UserHandlers) whoami(r *http.Request, _ web.None) (hubapi.Whoami, error) {
	c := web.CallerOf(r.Context())
	if c.User == "" {
		return hubapi.Whoami{}, errs.New(errs.Forbidden, "a hub's spawner is nobody").With(web.TokenRemedy)
	}
	out := hubapi.Whoami{
		User: string(c.User), Hub: c.Hub, Admin: c.Admin, Session: string(c.Workload), Subjects: []hubapi.Subject{},
		SSHKeys: []string{},
	}
	if s.people != nil {
		out.Person = s.people.Person(r.Context(), c.Hub, c.User)
	}
	if s.credentials != nil {
		list, err := s.credentials.List(r.Context(), s.principal(c.Hub, c.User))
		if err != nil {
			return out, err
		}
		for _, e := range list {
			out.Subjects = append(
				out.Subjects, hubapi.Subject{CredentialHolder: convert.CredentialHolder(e), Rule: e.Rule},
			)
		}
	}
	if owner, err := s.ssh.SSHOwner(c); err == nil { // programs in sessions do not see what lets in
		for _, k := range s.authority.Keys(owner) {
			out.SSHKeys = append(out.SSHKeys, k.Fingerprint)
		}
	}
	return out, nil
}

// mayNumber refuses whoever is no administrator.
func (s *UserHandlers) mayNumber(c spawner.Caller) error {
	switch {
	case !Administers(c):
		return errs.New(errs.Forbidden, "only administrators see and forget users' numbers").
			With("use an administrator's own token, outside of sessions; `slipway whoami` shows yours")
	case s.people == nil:
		return errs.New(errs.Missing, "this service knows of no numbers")
	}
	return nil
}

func (s *UserHandlers) numbers(r *http.Request, _ web.None) (hubapi.Numbers, error) {
	list := hubapi.Numbers{Accounts: []hubapi.Number{}}
	if err := s.mayNumber(web.CallerOf(r.Context())); err != nil {
		return list, err
	}
	all, err := s.people.Numbers(r.Context())
	list.Accounts = append(list.Accounts, all...)
	slices.SortFunc(list.Accounts, func(a, b hubapi.Number) int { return a.UID - b.UID })
	return list, err
}

func (s *UserHandlers) release(r *http.Request, _ web.None) (hubapi.Number, error) {
	if err := s.mayNumber(web.CallerOf(r.Context())); err != nil {
		return hubapi.Number{}, err
	}
	principal, err := web.Param(r, "principal")
	if err != nil {
		return hubapi.Number{}, err
	}
	return s.people.Release(r.Context(), principal)
}

func auditReleased(_ *http.Request, _ web.None, out hubapi.Number) (string, []any) {
	return "a user's number is forgotten", []any{"of", out.User, "number", out.UID}
}

func (s *UserHandlers) me(r *http.Request, _ web.None) (hubapi.Me, error) {
	c := web.CallerOf(r.Context())
	return hubapi.Me{User: string(c.User), Hub: c.Hub, Admin: c.Admin, Session: string(c.Workload)}, nil
}
