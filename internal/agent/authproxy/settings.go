package authproxy

import (
	"encoding/json"
	"net/url"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// settings are what the Hub tells a server, as jupyterhub-singleuser reads it (source: jupyterhub/services/auth.py).
type settings struct {
	base      string // decoded path of the program, with a slash at both ends
	path      string // the same as it stands in addresses
	prefix    string // that of the session, in the same way
	back      string // decoded path to which the Hub sends a visitor back
	redirect  string // the same as the Hub knows it
	client    string
	token     secret.Text // the server's own; also the client's secret
	authorize string      // the Hub's page that asks the visitor
	api       *url.URL    // the Hub's API, as it is reached from here
	access    []string    // scopes of which one lets in
	name      string      // of the server; empty: the user's default one
	activity  string      // where the Hub is told when something went on; empty: somebody else tells it
	https     bool        // the Hub says that visitors come by https
}

func settingsOf(env func(string) string, below string) (settings, error) {
	lacks := func(name string) (settings, error) {
		return settings{}, errs.New(errs.Invalid, "%s: it is missing, or not what a JupyterHub gives", name).
			With("start the session from JupyterHub")
	}
	prefix := "/" + strings.Trim(env("JUPYTERHUB_SERVICE_PREFIX"), "/") + "/"
	decoded, err := url.PathUnescape(prefix)
	if err != nil || prefix == "//" || winding(decoded) {
		return lacks("JUPYTERHUB_SERVICE_PREFIX")
	}
	s := settings{
		base: decoded + below, path: prefix + below, prefix: prefix, client: env("JUPYTERHUB_CLIENT_ID"),
		token:    secret.New(env("JUPYTERHUB_API_TOKEN")),
		redirect: env("JUPYTERHUB_OAUTH_CALLBACK_URL"),
		https:    strings.HasPrefix(env("JUPYTERHUB_PUBLIC_URL"), "https:"),
	}
	if s.client == "" {
		return lacks("JUPYTERHUB_CLIENT_ID")
	}
	if s.token.Empty() {
		return lacks("JUPYTERHUB_API_TOKEN")
	}
	if s.redirect == "" {
		s.redirect = prefix + "oauth_callback"
	}
	back, err := url.Parse(s.redirect)
	if err != nil || !strings.HasPrefix(back.Path, decoded) {
		return lacks("JUPYTERHUB_OAUTH_CALLBACK_URL")
	}
	s.back = back.Path
	s.authorize = env("JUPYTERHUB_HOST") + strings.TrimSuffix(
		"/"+strings.Trim(env("JUPYTERHUB_BASE_URL"), "/"), "/",
	) + "/hub/api/oauth2/authorize"
	if s.api, err = url.Parse(strings.TrimRight(env("JUPYTERHUB_API_URL"), "/")); err != nil || s.api.Host == "" {
		return lacks("JUPYTERHUB_API_URL")
	}
	for _, name := range []string{"JUPYTERHUB_OAUTH_ACCESS_SCOPES", "JUPYTERHUB_OAUTH_SCOPES"} {
		if s.access == nil && env(name) != "" && json.Unmarshal([]byte(env(name)), &s.access) != nil {
			return lacks(name)
		}
	}
	if len(s.access) == 0 {
		return lacks("JUPYTERHUB_OAUTH_ACCESS_SCOPES")
	}
	s.name, s.activity = env("JUPYTERHUB_SERVER_NAME"), env("JUPYTERHUB_ACTIVITY_URL")
	if env("JUPYTERHUB_ACTIVITY_INTERVAL") == "0" { // as jupyterhub-singleuser reads it
		s.activity = ""
	}
	return s, nil
}

// meets reports whether one of the scopes that a token has is one of those that let in. The Hub gives them expanded,
// with at most one filter each; a scope without a filter is that for all servers, one of a user's holds for each of
// hers.
func meets(access, has []string) bool {
	set := map[string]bool{}
	for _, s := range has {
		set[s] = true
	}
	for _, want := range access {
		name, filter, filtered := strings.Cut(want, "!")
		if set[want] || set[name] {
			return true
		}
		kind, value, _ := strings.Cut(filter, "=")
		if i := strings.LastIndexByte(value, '/'); filtered && kind == "server" && i > 0 &&
			set[name+"!user="+value[:i]] {
			return true
		}
	}
	return false
}
