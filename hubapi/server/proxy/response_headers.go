package proxy

import (
	"net/http"
	"net/url"
)

// ofTheOrigin are headers by which an answer speaks for its whole origin: that is the Hub's, of all users' servers and
// of the service's pages. One user's server must not log others out there, or have their browsers report elsewhere what
// they open, register a session or a dictionary for all paths, or say who is logged in.
var ofTheOrigin = []string{
	"Accept-Ch", "Alt-Svc", "Clear-Site-Data", "Critical-Ch", "Nel", "Report-To", "Sec-Session-Registration",
	"Secure-Session-Registration", "Set-Login",
	"Strict-Transport-Security", "Use-As-Dictionary",
}

// confine takes out of a session's answer what reaches beyond the session. A service worker sees all requests in its
// scope: it may have the session's own paths, as VS Code wants them, and no others.
func confine(res *http.Response) {
	for _, name := range ofTheOrigin {
		res.Header.Del(name)
	}
	to, _ := res.Request.Context().Value(targetKey{}).(target)
	confineCookies(res, to)
	const scope = "Service-Worker-Allowed"
	if res.Header.Get(scope) != "" {
		res.Header.Set(scope, (&url.URL{Path: to.prefix}).EscapedPath())
	}
}
