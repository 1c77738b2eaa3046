package api

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/internal/credentials"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/spawner"
)

// UserCredentials keeps users' tokens and proxies: credentials.Manager, which has the contract of each method. Who may
// ask is decided here.
type UserCredentials interface {
	CredentialStore
	DeviceLogins
}

// CredentialStore has what users have now.
type CredentialStore interface {
	List(ctx context.Context, principal string) ([]credentials.Entry, error)
	Renew(ctx context.Context, principal, name string) (credentials.Entry, error)
	Remove(ctx context.Context, principal, name string) error
	PutProxy(ctx context.Context, principal string, pem secret.Text) (credentials.Entry, error)
	RenewProxy(ctx context.Context, principal string, pem secret.Text) (credentials.Entry, error)
	PutRefresh(ctx context.Context, principal, issuer string, refresh secret.Text) (credentials.Entry, error)
	Issuers() []string
	Proxies() bool
}

// DeviceLogins logs users in at issuers by OAuth's device flow.
type DeviceLogins interface {
	BeginDevice(ctx context.Context, principal, issuer string) (credentials.Grant, error)
	Device(ctx context.Context, principal, grantID string) (credentials.Entry, error)
}

// CredentialHandlers serve users' tokens and proxies.
type CredentialHandlers struct {
	web          *web.Core
	audit        *audit.Log
	workloads    Workloads
	credentials  UserCredentials
	principal    func(hub string, user spawner.User) string
	issuerLogins *issuerLogins
}

// credentialRoutes are the routes of users' tokens and proxies.
func (s *CredentialHandlers) credentialRoutes(r chi.Router) {
	r.Method("GET", "/credentials", web.Serve(s.web, 200, s.listCredentials))
	r.Method(
		"PUT", "/credentials/"+hubapi.ProxyCredential,
		web.Serve(s.web, 200, audit.Told(s.PutProxy, AuditProxyPut)),
	)
	r.Method(
		"PUT", "/credentials/{name}/refresh-token",
		web.Serve(s.web, 200, audit.Told(s.giveRefreshToken, auditTokenGiven)),
	)
	r.Method(
		"POST", "/credentials/{name}/renew", web.Serve(s.web, 200, audit.Told(s.RenewCredential, AuditRenewed)),
	)
	r.Method(
		"DELETE", "/credentials/{name}",
		web.Serve(s.web, 200, audit.Told(s.RemoveCredential, AuditCredentialRemoved)),
	)
	r.Method(
		"POST", "/credentials/{name}/login",
		web.Serve(s.web, 200, audit.Told(s.BeginCredentialLogin, AuditLoginBegun)),
	)
	r.Method("GET", "/credential-logins/{id}", web.Serve(s.web, 200, s.awaitCredentialLogin).GetOnly())
}

// Use is what somebody wants to do with credentials.
type Use int

const (
	Look   Use = iota // at what may be shown of them
	bring             // a proxy, which a session's programs make
	remove            // them
	Manage            // what stands for the user herself at an issuer
)

// Principal returns the word for the owner of the credentials that are meant: the caller's own, unless user names
// another. It is the one place that decides who may. What runs in a session may be somebody else's, so a session only
// looks and brings; a job does neither. An administrator sees and removes what others have, and nothing else: there is
// no way to read a secret for anybody.
func (s *CredentialHandlers) Principal(r *http.Request, user string, what Use) (string, error) {
	c := web.CallerOf(r.Context())
	own := user == "" || user == string(c.User)
	switch {
	case s.credentials == nil:
		return "", errs.New(errs.Missing, "this service keeps no tokens and no proxies").
			With("its administrator sets credentials in its configuration")
	case c.Spawner || c.System || c.User == "":
		return "", errs.New(errs.Forbidden, "only a user has credentials").With(web.TokenRemedy)
	case c.Workload != "":
		if err := s.fromWithin(r.Context(), c, own, what); err != nil {
			return "", err
		}
	case !own && (!c.Admin || what != Look && what != remove):
		return "", errs.New(errs.Forbidden, "the credentials of %s are not yours", user).
			With("leave the user out: you have your own; administrators see and remove those of others")
	}
	if own {
		return s.principal(c.Hub, c.User), nil
	}
	return s.principal(c.Hub, spawner.User(user)), nil
}

// fromWithin decides for callers in a workload.
func (s *CredentialHandlers) fromWithin(ctx context.Context, c spawner.Caller, own bool, what Use) error {
	w, err := s.workloads.Get(ctx, web.Service(), c.Workload)
	switch {
	case err != nil:
		return err
	case w.Kind.Batch():
		return errs.New(errs.Forbidden, "a job neither sees nor changes its user's credentials").
			With("they lie in /run/slipway/credentials")
	case !own:
		return errs.New(errs.Forbidden, "a session acts for its own user alone").With("leave the user out")
	case what != Look && what != bring:
		return errs.New(
			errs.Forbidden,
			"from within a session, in which others' code may run, credentials are only listed, and a proxy is put",
		).With("use the page Credentials of your Hub's Slipway, or `slipway` on your own computer")
	}
	return nil
}

func (s *CredentialHandlers) listCredentials(r *http.Request, _ web.None) (hubapi.Credentials, error) {
	user := r.URL.Query().Get("user")
	principal, err := s.Principal(r, user, Look)
	if err != nil {
		return hubapi.Credentials{}, err
	}
	list, err := s.credentials.List(r.Context(), principal)
	if err != nil {
		return hubapi.Credentials{}, err
	}
	c := web.CallerOf(r.Context())
	out := hubapi.Credentials{
		User: string(c.User), Credentials: []hubapi.Credential{},
		Issuers: convert.OrEmpty(s.credentials.Issuers()), Proxies: s.credentials.Proxies(),
	}
	if user != "" && user != out.User {
		out.User = user
		audit.Note(r.Context(), "credentials of another user are listed", "of", user)
	}
	for _, e := range list {
		out.Credentials = append(out.Credentials, convert.Credential(e))
	}
	return out, nil
}

// PutProxy takes a proxy; from a workload only one of the same person as the one before.
func (s *CredentialHandlers) PutProxy(r *http.Request, in hubapi.ProxyRequest) (hubapi.Credential, error) {
	principal, err := s.Principal(r, "", bring)
	if err != nil {
		return hubapi.Credential{}, err
	}
	put := s.credentials.PutProxy
	if web.CallerOf(r.Context()).Workload != "" {
		put = s.credentials.RenewProxy
	}
	e, err := put(r.Context(), principal, secret.New(in.Proxy))
	return convert.Credential(e), err
}

func (s *CredentialHandlers) giveRefreshToken(r *http.Request, in hubapi.RefreshTokenRequest) (hubapi.Credential, error) {
	return s.managed(r, func(ctx context.Context, principal, name string) (credentials.Entry, error) {
		return s.credentials.PutRefresh(ctx, principal, name, secret.New(in.RefreshToken))
	})
}

func (s *CredentialHandlers) RenewCredential(r *http.Request, _ web.None) (hubapi.Credential, error) {
	return s.managed(r, func(ctx context.Context, principal, name string) (credentials.Entry, error) {
		return s.credentials.Renew(ctx, principal, name)
	})
}

// managed does something with the caller's credential of the name in the path.
func (s *CredentialHandlers) managed(
	r *http.Request, do func(ctx context.Context, principal, name string) (credentials.Entry, error),
) (hubapi.Credential, error) {
	principal, err := s.Principal(r, "", Manage)
	if err != nil {
		return hubapi.Credential{}, err
	}
	name, err := web.Param(r, "name")
	if err != nil {
		return hubapi.Credential{}, err
	}
	e, err := do(r.Context(), principal, name)
	return convert.Credential(e), err
}

func (s *CredentialHandlers) RemoveCredential(r *http.Request, _ web.None) (hubapi.CredentialRemoval, error) {
	principal, err := s.Principal(r, r.URL.Query().Get("user"), remove)
	if err != nil {
		return hubapi.CredentialRemoval{}, err
	}
	name, err := web.Param(r, "name")
	if err != nil {
		return hubapi.CredentialRemoval{}, err
	}
	return s.removal(r, principal, name)
}

// removal takes a credential away. That its issuer was not told is no failure: it is gone here, which is said with what
// is left to do.
func (s *CredentialHandlers) removal(r *http.Request, principal, name string) (hubapi.CredentialRemoval, error) {
	out := hubapi.CredentialRemoval{Name: name}
	err := s.credentials.Remove(r.Context(), principal, name)
	if errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Missing) {
		said := s.web.InWords(r, err).Error
		out.Note, err = web.Sentence(said.Message), nil
		if said.Remedy != "" {
			out.Note += " " + web.Sentence(said.Remedy)
		}
	}
	return out, err
}

func AuditProxyPut(_ *http.Request, _ hubapi.ProxyRequest, out hubapi.Credential) (string, []any) {
	return "a proxy is put", []any{"subject", out.Subject, "issuer", out.Issuer, "vo", out.VO, "expires", out.Expires}
}

func auditTokenGiven(_ *http.Request, _ hubapi.RefreshTokenRequest, out hubapi.Credential) (string, []any) {
	return "a refresh token is given", []any{"credential", out.Name, "subject", out.Subject, "issuer", out.Issuer}
}

func AuditRenewed(_ *http.Request, _ web.None, out hubapi.Credential) (string, []any) {
	return "a credential is renewed", []any{"credential", out.Name, "expires", out.Expires}
}

func AuditCredentialRemoved(r *http.Request, _ web.None, out hubapi.CredentialRemoval) (string, []any) {
	return "a credential is removed", []any{"credential", out.Name, "of", r.URL.Query().Get("user"), "note", out.Note}
}

func AuditLoginBegun(_ *http.Request, _ web.None, out hubapi.CredentialLogin) (string, []any) {
	return "a login at an issuer is begun", []any{"credential", out.Issuer}
}
