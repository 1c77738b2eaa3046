package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"slipway/hubapi/server/web"
)

// hostPrefix begins the names of cookies that browsers take with the path / alone.
const hostPrefix = "__Host-"

// longestAttribute is the most bytes of a cookie's attribute; browsers ignore longer ones (RFC 6265bis, section 5.6).
const longestAttribute = 1024

// confineCookies removes the cookies of a session's answer that a browser would send to others too: with a Domain, or
// with a Path that is not below the session's prefix. The origin is also that of the Hub, of the service's pages and of
// all other sessions, where such a cookie would log a visitor in as somebody else.
func confineCookies(res *http.Response, to target) {
	lines := res.Header["Set-Cookie"]
	res.Header.Del("Set-Cookie")
	res.Header.Del("Set-Cookie2")
	for _, line := range lines {
		if kept, ok := to.confined(line, res.Request.URL.EscapedPath()); ok {
			res.Header.Add("Set-Cookie", kept)
		}
	}
}

// confined returns the Set-Cookie line of an answer to asked with its path written out at the end, where it counts
// whatever else the line says; false when the cookie reaches beyond the session.
func (to target) confined(line, asked string) (string, bool) {
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "", false // browsers end the line at some of these
	}
	parts := strings.Split(line, ";")
	path, kept := defaultPath(asked), parts[:1]
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "domain":
			if value != "" {
				return "", false
			}
		case "path":
			if path = value; !strings.HasPrefix(value, "/") {
				path = defaultPath(asked)
			}
		default:
			kept = append(kept, part)
		}
	}
	name, _, _ := strings.Cut(parts[0], "=")
	if !to.has(path) && !(path == "/" && to.isHostCookie(strings.TrimSpace(name))) {
		return "", false
	}
	return strings.Join(kept, ";") + "; Path=" + path, true
}

// defaultPath is the path of a cookie that names none (RFC 6265, section 5.1.4).
func defaultPath(asked string) string {
	if i := strings.LastIndexByte(asked, '/'); i > 0 {
		return asked[:i]
	}
	return "/"
}

// has reports whether a cookie with this path goes to the session alone. The session's prefix without its last slash is
// as good as with it.
func (to target) has(path string) bool {
	plain, err := url.PathUnescape(path)
	return err == nil && len(path) <= longestAttribute && !web.Climbs(path) && (plain+"/" == to.prefix ||
		strings.HasPrefix(plain, to.prefix))
}

// isHostCookie reports whether a cookie is that of the session's own login where the Hub has its components use the
// prefix __Host-.
func (to target) isHostCookie(name string) bool {
	rest, ok := strings.CutPrefix(name, to.hostCookie)
	return ok && to.hostCookie != "" && (rest == "" || strings.HasPrefix(rest, "-oauth-state"))
}

// hostCookieOf returns the name of the login cookie of a session whose Hub wants the prefix __Host-
// (c.JupyterHub.cookie_host_prefix_enabled).
func hostCookieOf(env map[string]string) string {
	if on, client := env["JUPYTERHUB_COOKIE_HOST_PREFIX_ENABLED"], env["JUPYTERHUB_CLIENT_ID"]; client != "" &&
		(on == "1" || on == "true") {
		return hostPrefix + client
	}
	return ""
}

// keepCredentials removes the cookies of a request to a session that log its visitor in at the service's pages, at the
// Hub and at the Hub's services. Their paths keep them away as long as all browsers and proxies keep to them.
func keepCredentials(h http.Header) {
	lines := h["Cookie"]
	if !slices.ContainsFunc(lines, func(line string) bool { return slices.ContainsFunc(strings.Split(line, ";"), isCredential) }) {
		return
	}
	h.Del("Cookie")
	for _, line := range lines {
		if kept := slices.DeleteFunc(strings.Split(line, ";"), isCredential); len(kept) > 0 {
			h.Add("Cookie", strings.TrimSpace(strings.Join(kept, ";")))
		}
	}
}

// isCredential reports whether a pair of a Cookie header is one of those.
func isCredential(pair string) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
	name = strings.TrimPrefix(strings.TrimSpace(name), hostPrefix)
	return name == web.VisitCookie || strings.HasPrefix(name, web.LoginCookie) || name == "jupyterhub-hub-login" ||
		name == "jupyterhub-services"
}
