package web

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
)

// AnyMethod answers HEAD as GET without a body, and OPTIONS by what a path takes, wherever a route does not do it
// itself. Probes and proxies ask so. What is nobody's route is left to the next handler. routes is called once, at the
// first request.
func AnyMethod(routes func() chi.Routes) func(http.Handler) http.Handler {
	known := sync.OnceValue(func() table { return tableOf(routes()) })
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, path := chi.RouteContext(r.Context()), routePath(r)
			takes := func(method string) bool { return known().takes(method, path) }
			switch {
			case r.Method == http.MethodHead && !takes(http.MethodHead) && takes(http.MethodGet):
				c.RouteMethod, c.RoutePath = http.MethodGet, path
			case r.Method == http.MethodOptions && !takes(http.MethodOptions):
				if allowed := slices.DeleteFunc(methods(), func(m string) bool { return !takes(m) }); len(allowed) > 0 {
					Options(w, allowed)
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// table is which routes there are. To chi's Match the address of a router that is mounted takes every method.
type table struct {
	routes chi.Routes
	there  map[string]bool // method and pattern
}

func tableOf(routes chi.Routes) table {
	t := table{routes, map[string]bool{}}
	_ = chi.Walk(routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		t.there[method+" "+strings.TrimSuffix(route, "/")] = true
		return nil
	})
	return t
}

// takes reports whether a route is there for a path.
func (t table) takes(method, path string) bool {
	pattern := t.routes.Find(chi.NewRouteContext(), method, path)
	return pattern != "" && t.there[method+" "+strings.TrimSuffix(pattern, "/")]
}

func methods() []string {
	return []string{
		http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost, http.MethodPut,
	}
}

// Options answers which methods a path takes.
func Options(w http.ResponseWriter, allowed []string) {
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	allowed = append(allowed, http.MethodOptions)
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(slices.Compact(allowed), ", "))
	w.WriteHeader(http.StatusNoContent)
}

// routePath is what chi routes by.
func routePath(r *http.Request) string {
	switch c := chi.RouteContext(r.Context()); {
	case c.RoutePath != "":
		return c.RoutePath
	case r.URL.RawPath != "":
		return r.URL.RawPath
	case r.URL.Path == "":
		return "/"
	default:
		return r.URL.Path
	}
}

// GetOnly refuses HEAD where an answer lasts, or is given once.
func GetOnly(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Allow", http.MethodGet)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		do(w, r)
	}
}
