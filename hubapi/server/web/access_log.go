package web

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/internal/errs"
	"slipway/spawner"
)

// trace is what is known of a request for the log.
type trace struct {
	ID        string
	Route     string // of a request that no router matches
	Caller    string
	Forwarded bool // to a session
	entry     *audit.Entry
	intake    *intake
}

// unsent reports whether the client has gone before it had sent the whole body.
func (t *trace) unsent() bool { return t.intake != nil && t.intake.broke.Load() }

// whole reports whether the whole body has come.
func (t *trace) whole() bool { return t.intake == nil || t.intake.ended.Load() }

type traceKey struct{}

// TraceOf returns the trace of a request; an empty one outside of a request.
func TraceOf(ctx context.Context) *trace {
	if t, ok := ctx.Value(traceKey{}).(*trace); ok {
		return t
	}
	return &trace{entry: &audit.Entry{}}
}

// answer remembers the status of an answer.
type answer struct {
	http.ResponseWriter
	status int
	trace  *trace
}

// WriteHeader notes the final status. What a session says before its answer is not handed on: confine sees answers
// alone.
func (a *answer) WriteHeader(status int) {
	if a.trace.Forwarded && status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	if a.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		a.begin(status)
	}
	a.ResponseWriter.WriteHeader(status)
}

// begin is what precedes every answer. Those of the service's own are of the type that they say, and of no other.
func (a *answer) begin(status int) {
	a.status = status
	if !a.trace.Forwarded {
		a.Header().Set("X-Content-Type-Options", "nosniff")
	}
	a.hurry()
}

// Write notes the status of an answer that names none.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.begin(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController the way to flushing and hijacking.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Watch numbers, logs and measures requests. The log has the route's pattern, never the path or the query: both may
// hold secrets.
func (s *Core) Watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.busy.Add(1)
		defer s.busy.Done()
		defer s.underway.Add(-1)
		ctx, entry := audit.Begin(r.Context())
		t := &trace{ID: newRequestID(), entry: entry}
		began := time.Now()
		r = r.WithContext(context.WithValue(ctx, traceKey{}, t))
		t.intake = newIntake(r)
		a := &answer{ResponseWriter: w, trace: t}
		defer func() {
			route := "session proxy" // and what no route takes
			if c := chi.RouteContext(r.Context()); c != nil && c.RoutePattern() != "" && c.RoutePattern() != "/*" {
				route = c.RoutePattern()
			}
			if t.Route != "" {
				route = t.Route
			}
			took := time.Since(began)
			s.cfg.Metrics.Request(r.Method, route, a.status, took)
			level := slog.LevelDebug // reads and the session proxy are many
			own := strings.HasPrefix(route, hubapi.Base) || strings.HasPrefix(route, PagesRoute) || OfKernels(route) ||
				t.Route != ""
			if own && (!audit.Reads(r.Method) || a.status >= 400) && a.status != audit.StatusGone {
				level = slog.LevelInfo
			}
			if own && !(a.status == audit.StatusGone && t.unsent()) { // what has not come whole has done nothing
				s.cfg.Audit.Record(
					s.LogFor(r.Context()),
					audit.Request{Request: r, ID: t.ID, Route: route, Status: a.status, Opens: OfKernels(route)},
				)
			}
			s.LogFor(r.Context()).Log(r.Context(), level, "request", "request", t.ID, "method", r.Method, "route", route, "status", a.status,
				"ms", took.Milliseconds(), "caller", t.Caller)
		}()
		if s.underway.Add(1) > allRequests {
			s.Refuse(a, r, errs.New(errs.Unavailable, "the service has as many requests as it can take").
				With("try again in a moment"))
		} else {
			next.ServeHTTP(a, r)
		}
	})
}

// LogFor returns where the lines of a request go: those of nobody known are limited, as anybody can cause them.
func (s *Core) LogFor(ctx context.Context) *slog.Logger {
	t := TraceOf(ctx)
	if t.Caller == "" && t.entry.Caller == (spawner.Caller{}) {
		return s.outside
	}
	return s.log
}

// Recover turns a panic into an internal error, so that one request cannot end the others.
func (s *Core) Recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && err == http.ErrAbortHandler {
				panic(p) // how a handler says that an answer broke off
			}
			s.log.Error(
				"panic in a handler", "request", TraceOf(r.Context()).ID, "panic", fmt.Sprint(p), "stack",
				string(debug.Stack()),
			)
			if a, ok := w.(*answer); ok && a.status != 0 {
				panic(http.ErrAbortHandler)
			}
			s.Refuse(w, r, errs.New(errs.Internal, "panic"))
		}()
		next.ServeHTTP(w, r)
	})
}

// KernelsPath is where Jupyter Servers find the gateway to kernels, as their --gateway-url.
const KernelsPath = "/kernels"

// OfKernels reports whether a route is the gateway's.
func OfKernels(route string) bool { return strings.HasPrefix(route, KernelsPath+"/") }

// PagesRoute stands for any hub's prefix in the names of routes.
const PagesRoute = "/pages"

func newRequestID() string { return rand.Text()[:12] }
