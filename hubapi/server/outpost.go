package server

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/spawner"
)

// noStartID is what stands for the start's id in a path that has none.
const noStartID = "0"

// outpostPath is what a path of the Outpost protocol says.
type outpostPath struct {
	route string // for the log and the metrics
	start startPath
}

// startPath names a start: by the server's name, as it stands in the path and decoded, and the id.
type startPath struct{ raw, name, id string }

// names reports whether the path has this name. Clients send it as it is.
func (p startPath) names(server string) bool { return server == p.raw || server == p.name }

// The routes of the Outpost protocol.
const (
	routePing        = "/ping"
	routeFlavors     = "/flavors"
	routeUserFlavors = "/userflavors"
	routeCredits     = "/credits"
	routeUserCredits = "/usercredits"
	routeStarts      = "/services"
	routeStart       = "/services/{name}/{start_id}"
)

// parseOutpost reads an escaped path as it was sent; false when it is none of the protocol's. The default server's name is empty,
// so that an empty segment has a meaning: no path here is ever cleaned or redirected.
func parseOutpost(path string) (outpostPath, bool) {
	switch plain := strings.TrimSuffix(path, "/"); plain {
	case routePing, routeFlavors, routeUserFlavors, routeCredits, routeUserCredits, routeStarts:
		return outpostPath{route: plain}, true
	}
	rest, ok := strings.CutPrefix(path, routeStarts+"/")
	if !ok {
		return outpostPath{}, false
	}
	rest = strings.TrimSuffix(rest, "/")
	name, id := rest, ""
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		name, id = rest[:i], rest[i+1:]
	}
	return outpostPath{routeStart, startPath{name, unescaped(name), cmp.Or(unescaped(id), noStartID)}}, true
}

// unescaped decodes a word of a path, where it can be decoded.
func unescaped(word string) string {
	if decoded, err := url.PathUnescape(word); err == nil {
		return decoded
	}
	return word
}

// outpostMethod serves one method of a route. What it gives is JSON.
type outpostMethod func(w http.ResponseWriter, r *http.Request, c spawner.Caller, start startPath) (status int, body any, err error)

// outpostMethods are the methods of a route.
func (s *Server) outpostMethods(route string) map[string]outpostMethod {
	switch route {
	case routePing:
		return map[string]outpostMethod{"GET": nil} // see serveOutpost
	case routeFlavors:
		return map[string]outpostMethod{"GET": s.outpostFlavors}
	case routeUserFlavors:
		return map[string]outpostMethod{"POST": s.outpostUserFlavors}
	case routeCredits:
		return map[string]outpostMethod{"GET": noCredits}
	case routeUserCredits:
		return map[string]outpostMethod{"POST": noCredits}
	case routeStarts:
		return map[string]outpostMethod{"GET": s.outpostList, "POST": s.outpostStart}
	default:
		return map[string]outpostMethod{"GET": s.outpostPoll, "DELETE": s.outpostStop}
	}
}

// outpost takes the requests of the Outpost protocol and hands all others on. It stands before the router, which could not match
// an empty name.
func (s *Server) outpost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := parseOutpost(r.URL.EscapedPath())
		if !ok || s.isPage(r) {
			next.ServeHTTP(w, r)
			return
		}
		web.TraceOf(r.Context()).Route = path.route
		s.serveOutpost(w, r, path)
	})
}

func (s *Server) serveOutpost(w http.ResponseWriter, r *http.Request, path outpostPath) {
	methods := s.outpostMethods(path.route)
	if r.Method == http.MethodOptions {
		web.Options(w, slices.Collect(maps.Keys(methods)))
		return
	}
	if path.route == routePing {
		web.WriteJSON(w, http.StatusOK, map[string]string{"ping": "pong!"})
		return
	}
	audit.Of(r.Context()).Door = audit.DoorOutpost
	c, ok := s.byBasic(r)
	if !ok {
		username, _, _ := r.BasicAuth()
		s.Web.LogFor(r.Context()).Info("Outpost credential refused", "request", web.TraceOf(r.Context()).ID, "username", shown(username), "from", r.RemoteAddr)
		w.Header().Set("WWW-Authenticate", "Basic")
		audit.Of(r.Context()).Wrong = "the credential is not known"
		web.WriteJSON(w, http.StatusUnauthorized, detail{"Incorrect username or password"})
		return
	}
	web.Known(r.Context(), c)
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	do := methods[method]
	if do == nil {
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		web.WriteJSON(w, http.StatusMethodNotAllowed, detail{"Method Not Allowed"})
		return
	}
	status, body, err := do(w, r, c, path.start)
	if err != nil {
		s.refuseOutpost(w, r, err)
		return
	}
	web.WriteJSON(w, status, body)
}

// isPage reports whether a request is one of a browser for the service's own pages, which lie at the same place as the protocol:
// then it brings no Basic credentials. Of those only the ones come here that no hub's pages answer.
func (s *Server) isPage(r *http.Request) bool {
	return !isBasic(r) && slices.ContainsFunc(s.hubs.Of(r.Context()), func(h hubs.Hub) bool {
		return h.PagesPrefix != "" && strings.HasPrefix(r.URL.EscapedPath()+"/", h.PagesPrefix)
	})
}

// isBasic reports whether a request brings Basic credentials, readable or not.
func isBasic(r *http.Request) bool {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Basic")
}

// byBasic finds the hub whose credential a request brings. All are compared, so that the time tells nothing.
func (s *Server) byBasic(r *http.Request) (c spawner.Caller, ok bool) {
	username, password, ok := r.BasicAuth()
	if !ok {
		return c, false
	}
	for _, h := range s.hubs.Of(r.Context()) {
		for _, credential := range h.Outpost {
			if credential.Is(username, password) {
				c = spawner.Caller{Hub: h.Name, Spawner: true}
			}
		}
	}
	return c, c.Spawner
}

// noCredits answers for the protocol's credits: there are none here, and nothing costs any.
func noCredits(http.ResponseWriter, *http.Request, spawner.Caller, startPath) (int, any, error) {
	return http.StatusOK, struct{}{}, nil
}
