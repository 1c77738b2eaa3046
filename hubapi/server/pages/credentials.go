package pages

import (
	"errors"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/logins"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/webui"
)

// credentialPages are the pages of tokens and proxies.
func (p *Pages) credentialPages(r chi.Router) {
	r.Get("/credentials", p.show(p.credentialsPage))
	r.Get("/credentials/proxy", p.show(p.credentialsPage)) // where the browser is after a proxy that was not taken
	r.Post("/credentials/proxy", p.sentProxy)
	r.Post("/tokens/revoke", p.act(p.revokeToken))
	r.Post("/credentials/{name}/renew", p.act(p.renew))
	r.Post("/credentials/{name}/remove", p.removedCredential)
	r.Post("/credentials/{name}/login", p.act(p.beginIssuerLogin))
	r.Get("/credentials/logins/{id}", p.show(p.issuerLoginPage))
}

// asVisitor is the request with who sends it, for the log and for what the API's handlers do.
func asVisitor(r *http.Request, v visitor) *http.Request {
	return r.WithContext(web.WithCaller(r.Context(), v.caller))
}

func (p *Pages) credentialsPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	view, err := p.credentialsView(r, v)
	if err != nil {
		return err
	}
	return webui.CredentialsPage(w, p.view(v), view)
}

func (p *Pages) credentialsView(r *http.Request, v visitor) (view webui.CredentialsView, err error) {
	if p.cfg.Tokens != nil {
		owner, err := logins.Owner(v.caller)
		if err != nil {
			return view, err
		}
		view.Tokens = p.cfg.Tokens.List(owner)
		if view.Login = "slipway login"; v.hub.Address != "" {
			view.Login += " " + v.hub.Address
		}
		if p.cfg.UserCredentials == nil {
			return view, nil
		}
	}
	principal, err := p.cfg.API.Credentials.Principal(asVisitor(r, v), "", api.Look)
	if err != nil {
		return view, err
	}
	list, err := p.cfg.UserCredentials.List(r.Context(), principal)
	if err != nil {
		return view, err
	}
	view.Kept, view.Issuers, view.Proxies = true, p.cfg.UserCredentials.Issuers(), p.cfg.UserCredentials.Proxies()
	switch {
	case v.hub.Address == "":
	case view.Login != "":
		view.Command = view.Login + " && slipway proxy put"
	default:
		view.Command = "SLIPWAY_URL=" + v.hub.Address + " SLIPWAY_TOKEN=... slipway proxy put"
	}
	for _, e := range list {
		view.List = append(view.List, convert.Credential(e))
	}
	return view, nil
}

// revokeToken ends an access token of the visitor's.
func (p *Pages) revokeToken(r *http.Request, v visitor) (string, error) {
	if p.cfg.Tokens == nil {
		return "", errs.New(errs.Missing, "this service gives out no access tokens")
	}
	owner, err := logins.Owner(v.caller)
	if err != nil {
		return "", err
	}
	id := r.PostForm.Get("id")
	if err := p.cfg.Tokens.Revoke(r.Context(), owner, id); err != nil {
		return "", err
	}
	audit.Note(r.Context(), "an access token is revoked", "token", id)
	return "credentials", nil
}

// sentProxy takes a proxy's file. What is wrong with it is said at its field; nothing of it is on the page.
func (p *Pages) sentProxy(w http.ResponseWriter, r *http.Request) {
	var v visitor
	_, err := p.acted(w, r, func(r *http.Request, who visitor) (string, error) {
		v = who
		return "", p.takeProxy(r, who)
	})
	switch {
	case err == nil:
		http.Redirect(w, r, hubOfPage(r.Context()).PagesPrefix+"credentials", http.StatusSeeOther)
		return
	case v.key != "" && errs.Is(err, errs.Invalid):
		err = p.proxyAgain(w, r, v, err)
	}
	if err != nil {
		p.problem(w, r, err)
	}
}

func (p *Pages) takeProxy(r *http.Request, v visitor) error {
	file, _, err := r.FormFile("file")
	if errors.Is(err, http.ErrMissingFile) || errors.Is(err, http.ErrNotMultipart) {
		return errs.New(errs.Invalid, "no file was chosen").
			With("choose the proxy's file: voms-proxy-info -path names it")
	}
	if err != nil {
		return errs.New(errs.Invalid, "the file cannot be read").With("choose the proxy's file once more")
	}
	defer file.Close()
	text, err := io.ReadAll(file) // the form has been bounded
	if err != nil {
		return errs.New(errs.Invalid, "the file cannot be read").With("choose the proxy's file once more")
	}
	_, err = audit.Told(
		p.cfg.API.Credentials.PutProxy, api.AuditProxyPut,
	)(asVisitor(r, v), hubapi.ProxyRequest{Proxy: string(text)})
	return err
}

func (p *Pages) proxyAgain(w http.ResponseWriter, r *http.Request, v visitor, wrong error) error {
	view, err := p.credentialsView(r, v)
	if err != nil {
		return err
	}
	said := p.cfg.Web.ErrorBody(r, wrong).Error
	view.Status, view.Wrong = errs.RowOf(errs.Invalid).Status, web.Sentence(said.Message)+" "+web.Sentence(said.Remedy)
	return webui.CredentialsPage(w, p.view(v), view)
}

func (p *Pages) renew(r *http.Request, v visitor) (string, error) {
	_, err := audit.Told(p.cfg.API.Credentials.RenewCredential, api.AuditRenewed)(asVisitor(r, v), web.None{})
	return "credentials", err
}

// removedCredential takes a credential away, and says what is left to do, if anything.
func (p *Pages) removedCredential(w http.ResponseWriter, r *http.Request) {
	var v visitor
	var out hubapi.CredentialRemoval
	_, err := p.acted(w, r, func(r *http.Request, who visitor) (_ string, err error) {
		v = who
		out, err = audit.Told(p.cfg.API.Credentials.RemoveCredential, api.AuditCredentialRemoved)(asVisitor(r, who), web.None{})
		return "", err
	})
	switch {
	case err == nil && out.Note == "":
		http.Redirect(w, r, hubOfPage(r.Context()).PagesPrefix+"credentials", http.StatusSeeOther)
		return
	case err == nil:
		var view webui.CredentialsView
		if view, err = p.credentialsView(r, v); err == nil {
			view.Note = out.Note
			err = webui.CredentialsPage(w, p.view(v), view)
		}
	}
	if err != nil {
		p.problem(w, r, err)
	}
}

func (p *Pages) beginIssuerLogin(r *http.Request, v visitor) (string, error) {
	out, err := audit.Told(p.cfg.API.Credentials.BeginCredentialLogin, api.AuditLoginBegun)(asVisitor(r, v), web.None{})
	return "credentials/logins/" + out.ID, err
}

// issuerLoginPage shows a login that waits, and leads on from one that is confirmed.
func (p *Pages) issuerLoginPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	principal, err := p.cfg.API.Credentials.Principal(asVisitor(r, v), "", api.Manage)
	if err != nil {
		return err
	}
	id, err := web.Param(r, "id")
	if err != nil {
		return err
	}
	login, ended, err := p.cfg.API.Credentials.IssuerLogin(principal, id)
	switch {
	case err != nil:
		return err
	case !ended:
		return webui.CredentialLoginPage(w, p.view(v), login)
	}
	http.Redirect(w, r, v.hub.PagesPrefix+"credentials", http.StatusSeeOther)
	return nil
}
