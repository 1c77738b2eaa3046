package server

import (
	"net/http"
	"net/url"
)

// ofTheOrigin are headers by which an answer speaks for its whole origin: that is the Hub's, of all users' servers and of the
// service's pages. One user's server must not log others out there, or have their browsers report elsewhere what they open.
var ofTheOrigin = []string{"Alt-Svc", "Clear-Site-Data", "Nel", "Report-To", "Strict-Transport-Security"}

// confine takes out of a session's answer what reaches beyond the session. A service worker sees all requests in its scope: it
// may have the session's own paths, as VS Code wants them, and no others.
func confine(res *http.Response) {
	for _, name := range ofTheOrigin {
		res.Header.Del(name)
	}
	const scope = "Service-Worker-Allowed"
	if to, ok := res.Request.Context().Value(targetKey{}).(target); ok && res.Header.Get(scope) != "" {
		res.Header.Set(scope, (&url.URL{Path: to.prefix}).EscapedPath())
	}
}
