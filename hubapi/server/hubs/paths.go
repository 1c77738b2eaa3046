package hubs

import (
	"net/url"
	"strings"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Base returns the path below which the Hub and all its servers lie, with slashes at both ends: that of its API tells
// it.
func (h Hub) Base() string {
	return strings.TrimSuffix(strings.TrimRight(h.APIURL.EscapedPath(), "/"), "hub/api")
}

// HasPages reports whether the service shows pages to the hub's users.
func (h Hub) HasPages() bool { return h.OAuth != nil && h.PagesPrefix != "" }

// Page returns the path of a workload's page; empty when the hub has no pages.
func (h Hub) Page(w spawner.Workload) string {
	if !h.HasPages() {
		return ""
	}
	return h.PagesPrefix + PathOf(w)
}

// PathOf returns the path of a workload's page below a hub's prefix.
func PathOf(w spawner.Workload) string {
	if w.Kind.Batch() {
		return "jobs/" + string(w.ID)
	}
	return "sessions/" + string(w.ID)
}

// Home returns the path of the Hub's own pages: the prefix is <base>services/<name>/.
func (h Hub) Home() string {
	return h.PagesPrefix[:max(0, strings.LastIndex(h.PagesPrefix, "services/"))] + "hub/"
}

// ServersAt returns the servers that a decoded path can be the prefix of: a name may hold a slash. Anybody may ask for
// any path, so it must not take a look at all sessions to say whose it is.
func (h Hub) ServersAt(prefix string) []spawner.Server {
	base, err := url.PathUnescape(h.Base())
	rest, in := strings.CutPrefix(prefix, base+"user/")
	rest, ends := strings.CutSuffix(rest, "/")
	if err != nil || !in || !ends || rest == "" {
		return nil
	}
	servers := []spawner.Server{{User: spawner.User(rest)}}
	if i := strings.LastIndexByte(rest, '/'); i > 0 {
		servers = append(servers, spawner.Server{User: spawner.User(rest[:i]), Name: rest[i+1:]})
	}
	return servers
}

// SessionPrefix decodes the URL path of a session. It must be that of a server of the hub's, so that no session can
// take the service's own paths or another hub's.
func (h Hub) SessionPrefix(escaped string) (string, error) {
	decoded, err := url.PathUnescape(escaped)
	bad := err != nil || !strings.HasPrefix(decoded, "/") || !strings.HasSuffix(decoded, "/") ||
		strings.HasSuffix(decoded, "/user/") ||
		!strings.HasPrefix(escaped, h.Base()+"user/") ||
		strings.Contains(decoded, "//") || strings.ContainsAny(escaped, "?# \\")
	for _, segment := range strings.Split(decoded, "/") {
		bad = bad || segment == "." || segment == ".."
	}
	if bad {
		return "", errs.Bad(
			"prefix", escaped,
			"the path of a Hub user's server as JUPYTERHUB_SERVICE_PREFIX has it, such as "+h.Base()+"user/alice/",
		)
	}
	return decoded, nil
}
