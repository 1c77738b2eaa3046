package webui

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"slipway/hubapi"
)

// CredentialsView is what the page of tokens and proxies is made of. There is no secret in it.
type CredentialsView struct {
	Tokens []hubapi.AccessToken // of programs on the visitor's computers
	Login  string               // gets one; empty: the service gives none out

	Kept    bool // the service keeps tokens and proxies for sessions and jobs
	List    []hubapi.Credential
	Issuers []string // at which one can log in
	Proxies bool     // the service takes some
	Command string   // puts a proxy from one's own computer; empty: the service's own address is not known

	Status int    // of the answer; 0: 200
	Wrong  string // what was wrong with the proxy that was sent; empty: nothing
	Note   string // what is left to do after a removal; empty: nothing
}

type credentialsBody struct {
	CredentialsView
	Visit Visit
	Back  string // as in row: these forms send none
	now   time.Time
}

// CredentialsPage answers with the visitor's tokens and proxies.
func CredentialsPage(w http.ResponseWriter, v Visit, view CredentialsView) error {
	body := credentialsBody{CredentialsView: view, Visit: v, now: time.Now()}
	return write(
		w, cmp.Or(view.Status, http.StatusOK), "credentials.html",
		frame{Title: "Credentials", Script: true, Visit: v, Body: body},
	)
}

// Title names a credential.
func (b credentialsBody) Title(c hubapi.Credential) string {
	if c.Name == hubapi.ProxyCredential {
		return "X.509 proxy"
	}
	return c.Name
}

// IsProxy reports whether it is one.
func (b credentialsBody) IsProxy(c hubapi.Credential) bool { return c.Name == hubapi.ProxyCredential }

// From says where it has come from.
func (b credentialsBody) From(c hubapi.Credential) string {
	return map[string]string{
		"hub": "from the Hub's login", "device": "you have logged in", "given": "a refresh token that you gave",
		"upload": "you have put it",
	}[c.From]
}

// Left says how long what sessions and jobs have of it lasts.
func (b credentialsBody) Left(c hubapi.Credential) string {
	switch {
	case c.Expires == nil:
		return "nothing yet"
	case !c.Expires.After(b.now):
		return "ended"
	}
	return span(c.Expires.Sub(b.now)) + " left"
}

// State is its mark on the page.
func (b credentialsBody) State(c hubapi.Credential) string {
	switch {
	case c.Expires == nil || !c.Expires.After(b.now):
		return "failed"
	case c.Trouble != "":
		return "waiting"
	}
	return "running"
}

// Missing are the issuers of which the visitor has nothing.
func (b credentialsBody) Missing() []string {
	var names []string
	for _, name := range b.Issuers {
		if !slices.ContainsFunc(b.List, func(c hubapi.Credential) bool { return c.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// Known reports whether one can log in for a credential.
func (b credentialsBody) Known(c hubapi.Credential) bool { return slices.Contains(b.Issuers, c.Name) }

type credentialLoginBody struct {
	hubapi.CredentialLogin
	Visit Visit
}

// CredentialLoginPage shows what the visitor does to log in at an issuer, and looks by itself whether she has.
func CredentialLoginPage(w http.ResponseWriter, v Visit, login hubapi.CredentialLogin) error {
	f := frame{
		Title: "Log in at " + login.Issuer, Refresh: 5, Script: true, Visit: v, Body: credentialLoginBody{login, v},
	}
	return write(w, http.StatusOK, "credential-login.html", f)
}
