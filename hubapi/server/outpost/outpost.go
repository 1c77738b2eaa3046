// Package outpost speaks the protocol of the published OutpostSpawner to Hubs: starts, polls, stops and flavors, as
// JupyterHub Outpost has them. A start is of one id, and asking for it again is the same start; a stop that overtakes
// its start ends it; and it is never said by mistake that there is no such session, for which the Hub would take the
// server for dead.
package outpost

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/offers"
	"slipway/hubapi/server/web"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// Engine is what the package needs of the engine, which has the contract of each method.
type Engine interface {
	StartSession(ctx context.Context, c spawner.Caller, r spawner.SessionRequest) (spawner.Workload, error)
	Launched(ctx context.Context, c spawner.Caller, launch string) (spawner.Workload, error)
	StopLaunch(ctx context.Context, c spawner.Caller, launch string) (spawner.Workload, error)
	List(ctx context.Context, c spawner.Caller) ([]spawner.Workload, error)
	Await(ctx context.Context, c spawner.Caller, id spawner.ID, done func(spawner.Workload) bool) (spawner.Workload, error)
	Tail(ctx context.Context, c spawner.Caller, id spawner.ID, lines int) (string, error)
	Census(hub string, per func(spawner.Workload) string) map[string]int
	Ready() error
}

// Config is what an Outpost needs.
type Config struct {
	Engine    Engine
	Catalogue catalog.Catalogue
	Offers    *offers.Offers
	Hubs      *hubs.Set
	Logger    *slog.Logger
}

// Outpost serves the protocol.
type Outpost struct {
	cfg    Config
	web    *web.Core
	hubs   *hubs.Set
	offers *offers.Offers
	log    *slog.Logger
	claims *claims
}

// New makes an Outpost.
func New(cfg Config, core *web.Core) *Outpost {
	return &Outpost{cfg: cfg, web: core, hubs: cfg.Hubs, offers: cfg.Offers, log: cfg.Logger, claims: newClaims()}
}

// noStartID is what stands for the start's id in a path that has none.
const noStartID = "0"

// requestPath is what a path of the Outpost protocol says.
type requestPath struct {
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

// parsePath reads an escaped path as it was sent; false when it is none of the protocol's. The default server's name is
// empty, so that an empty segment has a meaning: no path here is ever cleaned or redirected.
func parsePath(path string) (requestPath, bool) {
	switch plain := strings.TrimSuffix(path, "/"); plain {
	case routePing, routeFlavors, routeUserFlavors, routeCredits, routeUserCredits, routeStarts:
		return requestPath{route: plain}, true
	}
	rest, ok := strings.CutPrefix(path, routeStarts+"/")
	if !ok {
		return requestPath{}, false
	}
	rest = strings.TrimSuffix(rest, "/")
	name, id := rest, ""
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		name, id = rest[:i], rest[i+1:]
	}
	return requestPath{routeStart, startPath{name, unescaped(name), cmp.Or(unescaped(id), noStartID)}}, true
}

// unescaped decodes a word of a path, where it can be decoded.
func unescaped(word string) string {
	if decoded, err := url.PathUnescape(word); err == nil {
		return decoded
	}
	return word
}

// handler serves one method of a route. What it gives is JSON.
type handler func(w http.ResponseWriter, r *http.Request, c spawner.Caller, start startPath) (status int, body any, err error)

// methods are the methods of a route.
func (o *Outpost) methods(route string) map[string]handler {
	switch route {
	case routePing:
		return map[string]handler{"GET": nil} // see serve
	case routeFlavors:
		return map[string]handler{"GET": o.hubFlavors}
	case routeUserFlavors:
		return map[string]handler{"POST": o.userFlavors}
	case routeCredits:
		return map[string]handler{"GET": noCredits}
	case routeUserCredits:
		return map[string]handler{"POST": noCredits}
	case routeStarts:
		return map[string]handler{"GET": o.list, "POST": o.start}
	default:
		return map[string]handler{"GET": o.poll, "DELETE": o.stop}
	}
}

// Middleware takes the requests of the Outpost protocol and hands all others on. It stands before the router, which
// could not match an empty name.
func (o *Outpost) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := parsePath(r.URL.EscapedPath())
		if !ok || o.isPage(r) {
			next.ServeHTTP(w, r)
			return
		}
		web.TraceOf(r.Context()).Route = path.route
		o.serve(w, r, path)
	})
}

func (o *Outpost) serve(w http.ResponseWriter, r *http.Request, path requestPath) {
	methods := o.methods(path.route)
	if r.Method == http.MethodOptions {
		web.Options(w, slices.Collect(maps.Keys(methods)))
		return
	}
	if path.route == routePing {
		web.WriteJSON(w, http.StatusOK, map[string]string{"ping": "pong!"})
		return
	}
	audit.Of(r.Context()).Door = audit.DoorOutpost
	c, ok := o.byBasic(r)
	if !ok {
		username, _, _ := r.BasicAuth()
		o.web.LogFor(r.Context()).Info(
			"Outpost credential refused", "request", web.TraceOf(r.Context()).ID, "username", shown(username), "from",
			r.RemoteAddr,
		)
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
		o.refuse(w, r, err)
		return
	}
	web.WriteJSON(w, status, body)
}

// isPage reports whether a request is one of a browser for the service's own pages, which lie at the same place as the
// protocol: then it brings no Basic credentials. Of those only the ones come here that no hub's pages answer.
func (o *Outpost) isPage(r *http.Request) bool {
	return !web.IsBasic(r) && slices.ContainsFunc(o.hubs.Of(r.Context()), func(h hubs.Hub) bool {
		return h.PagesPrefix != "" && strings.HasPrefix(r.URL.EscapedPath()+"/", h.PagesPrefix)
	})
}

// byBasic finds the hub whose credential a request brings. All are compared, so that the time tells nothing.
func (o *Outpost) byBasic(r *http.Request) (c spawner.Caller, ok bool) {
	username, password, ok := r.BasicAuth()
	if !ok {
		return c, false
	}
	for _, h := range o.hubs.Of(r.Context()) {
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
