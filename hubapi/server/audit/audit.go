// Package audit keeps the audit log: whoever changes something leaves one line, whatever comes of it: who, by which
// door, what, and on what.
//
// A request has an Entry, which those who serve it fill with what they know: who asks, and in better words than the
// route's what was done. The line is written when the request is over (Record), so that no handler can forget it; the
// words for routes that say nothing themselves are in Words. The package decides nothing about a request, and no secret
// and no id that opens something gets into a line.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Entry is what a request does that others must be able to find out later. Its fields may be set until the request is
// over.
type Entry struct {
	Caller spawner.Caller
	Door   string
	What   string // in words, once it is done
	Which  []any
	Ended  []spawner.ID // what it has ended beside, whatever came of it
	Owner  string       // of what it is done to, where that is not the caller
	Wrong  string       // why it was not done
}

type entryKey struct{}

// Begin returns a context with the entry of a new request.
func Begin(ctx context.Context) (context.Context, *Entry) {
	e := &Entry{}
	return context.WithValue(ctx, entryKey{}, e), e
}

// Of returns the entry of a request; an empty one outside of a request.
func Of(ctx context.Context) *Entry {
	if e, ok := ctx.Value(entryKey{}).(*Entry); ok {
		return e
	}
	return &Entry{}
}

// The doors by which callers come.
const (
	DoorToken   = "token"   // a user's, of the Hub or of the service
	DoorSpawner = "spawner" // the Hub's SlipwaySpawner
	DoorOutpost = "outpost" // the Hub's OutpostSpawner
	DoorSocket  = "socket"  // of a session's or job's agent
	DoorPage    = "page"
	DoorSSHKey  = "ssh key"
	DoorTicket  = "ticket" // a new kernel's id
)

// Note says what a request has done, in better words than its route has.
func Note(ctx context.Context, what string, which ...any) {
	e := Of(ctx)
	e.What, e.Which = what, which
}

// OnBehalf notes whose something is that a request is about.
func OnBehalf(ctx context.Context, owner spawner.User) {
	if e := Of(ctx); owner != e.Caller.User {
		e.Owner = string(owner)
	}
}

// Told is do, told in words when it has succeeded. say gives the words, and none where nothing was changed.
func Told[In, Out any](
	do func(*http.Request, In) (Out, error), say func(r *http.Request, in In, out Out) (what string, which []any),
) func(*http.Request, In) (Out, error) {
	return func(r *http.Request, in In) (Out, error) {
		out, err := do(r, in)
		if err != nil {
			return out, err
		}
		if what, which := say(r, in, out); what != "" {
			Note(r.Context(), what, which...)
		}
		return out, nil
	}
}

// Changes reports whether a request of a route of the service's own is there to change something.
func Changes(method, route string) bool {
	return !Reads(method) && !changesNothing()[ActionOf(method, route)]
}

// Reads reports whether a method only looks.
func Reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// changesNothing are the routes that take a body and change nothing.
func changesNothing() map[string]bool {
	return map[string]bool{"POST /jobs/check": true, "POST /login/token": true, "POST /userflavors": true, "POST /usercredits": true}
}

// ActionOf names a route in the log and in the tables here.
func ActionOf(method, route string) string {
	return method + " " + strings.TrimSuffix(strings.TrimPrefix(route, hubapi.Base), "/")
}

// Request is a request that is over.
type Request struct {
	*http.Request
	ID     string
	Route  string // the pattern
	Status int    // of its answer; 0: there was none
	Opens  bool   // its path has an id that opens something: the line must not have it
}

// People knows the numbers that users have on this host.
type People interface {
	// UID returns the number that a hub's user has here, if she has any. It does not wait.
	UID(ctx context.Context, hub string, user spawner.User) (int, bool)
}

// Log is the audit log.
type Log struct {
	Logger *slog.Logger
	// the word by which the service knows a hub's user; nil: it has none
	Principal func(hub string, user spawner.User) string
	People    People // nil: nobody has a number
}

// Record writes the line of a request to a route of the service's own, to log.
func (l *Log) Record(log *slog.Logger, r Request) {
	e := *Of(r.Context())
	if e.What == "" && !Changes(r.Method, r.Route) {
		return
	}
	action := ActionOf(r.Method, r.Route)
	result, what := judged(r.Status, e.Wrong)
	if result == done {
		what = cmp.Or(e.What, Words()[action])
	}
	attrs := e.Which
	if result != done {
		attrs = nil
	}
	for _, id := range e.Ended {
		attrs = append(attrs, "ended", id)
	}
	attrs = append(attrs, l.who(r.Context(), e)...)
	if Changes(r.Method, r.Route) && !r.Opens { // the path of a look may open something too
		attrs = append(attrs, objects(r.Request)...)
	}
	attrs = append(attrs, l.whose(e)...)
	attrs = append(attrs, "audit", result, "action", action, "request", r.ID)
	if result != done {
		attrs = append(attrs, "status", r.Status, "why", e.Wrong)
	}
	log.Log(r.Context(), slog.LevelInfo, what, attrs...)
}

// done is the result of what was done.
const done = "done"

// StatusGone is the status in the log and in the metrics of a request whose client has gone: nobody gets an answer.
const StatusGone = 499

// judged returns what came of an action by the status of its answer, 0 when there was none; and the words for what was
// not done.
func judged(status int, wrong string) (result, what string) {
	switch {
	case status == 0 || status == StatusGone:
		return "broken off", "an action was broken off"
	case status >= http.StatusInternalServerError && status != errs.RowOf(errs.Missing).Status: // what this site lacks is no fault
		return "failed", "an action has failed"
	case status >= http.StatusBadRequest:
		return "refused", "an action is refused"
	case wrong != "":
		return "failed", "an action has failed"
	}
	return done, ""
}

// Write writes the line of what a user has done by a door that is none of the routes': what in words, once it is done,
// and the error that it came to otherwise.
func (l *Log) Write(ctx context.Context, c spawner.Caller, door, action, what string, err error, which ...any) {
	status, why := http.StatusOK, ""
	if err != nil {
		status, why = errs.RowOf(errs.KindOf(err)).Status, errs.Brief(err)
	}
	if errors.Is(err, context.Canceled) {
		status = 0
	}
	result, words := judged(status, why)
	attrs := append(slices.Clone(which), l.who(ctx, Entry{Caller: c, Door: door})...)
	attrs = append(attrs, "audit", result, "action", action)
	if result != done {
		attrs = append(attrs, "status", status, "why", why)
	}
	l.Logger.Log(ctx, slog.LevelInfo, cmp.Or(words, what), attrs...)
}

// who says who asks, as far as that is known.
func (l *Log) who(ctx context.Context, e Entry) []any {
	c := e.Caller
	if c == (spawner.Caller{}) {
		return []any{"by", "nobody known", "door", e.Door}
	}
	attrs := []any{"by", CallerName(c), "user", c.User, "hub", c.Hub, "door", e.Door}
	if c.User != "" && l.Principal != nil {
		attrs = append(attrs, "principal", l.Principal(c.Hub, c.User))
	}
	if c.User != "" && l.People != nil {
		if uid, known := l.People.UID(ctx, c.Hub, c.User); known {
			attrs = append(attrs, "uid", uid)
		}
	}
	return attrs
}

// whose says whose something is that another does something to. A Hub's spawner has no principal of its own: the line
// has the owner's.
func (l *Log) whose(e Entry) []any {
	if e.Owner == "" {
		return nil
	}
	owner := e.Owner[:min(len(e.Owner), mostWord)]
	attrs := []any{"owner", owner}
	if e.Caller.User == "" && e.Caller.Hub != "" && l.Principal != nil {
		attrs = append(attrs, "principal", l.Principal(e.Caller.Hub, spawner.User(owner)))
	}
	return attrs
}

// mostWord is the most bytes of a word of a path in the log.
const mostWord = 200

// objects are the words of the path that name what is meant. No route that changes something has a secret in its path.
func objects(r *http.Request) []any {
	c := chi.RouteContext(r.Context())
	if c == nil {
		return nil
	}
	var attrs []any
	for i, key := range c.URLParams.Keys {
		if value := c.URLParams.Values[i]; key != "*" && value != "" {
			attrs = append(attrs, "path_"+key, value[:min(len(value), mostWord)])
		}
	}
	return attrs
}

// CallerName names who asks in the log.
func CallerName(c spawner.Caller) string {
	switch {
	case c.Spawner:
		return "spawner of " + c.Hub
	case c.Workload != "":
		return string(c.Workload)
	default:
		return fmt.Sprintf("%s of %s", c.User, c.Hub)
	}
}
