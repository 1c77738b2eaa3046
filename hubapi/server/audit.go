package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Whoever changes something here leaves one line in the log, whatever comes of it: who, by which door, what, and on what. It is written when
// the request is over, by watch, so that no handler can forget it; a handler adds what it knows better (audit), and the words for the others
// are in deedWords. A test walks the routes.

// deed is what a request does that others must be able to find out later.
type deed struct {
	caller spawner.Caller
	door   string
	what   string // in words, once it is done
	which  []any
	ended  []spawner.ID // what it has ended beside, whatever came of it
	owner  string       // of what it is done to, where that is not the caller
	wrong  string       // why it was not done
}

// The doors by which callers come.
const (
	doorToken   = "token"   // a user's, of her Hub
	doorSpawner = "spawner" // the Hub's SlipwaySpawner
	doorOutpost = "outpost" // the Hub's OutpostSpawner
	doorSocket  = "socket"  // of a session's or job's agent
	doorPage    = "page"
	doorSSHKey  = "ssh key"
	doorTicket  = "ticket" // a new kernel's id
)

// audit says what a request has done, in better words than its route has.
func (s *Server) audit(r *http.Request, what string, which ...any) {
	d := &traceOf(r.Context()).deed
	if c := callerOf(r.Context()); c != (spawner.Caller{}) {
		d.caller = c
	}
	d.what, d.which = what, which
}

// onBehalf notes whose something is that a request is about.
func onBehalf(ctx context.Context, owner spawner.User) {
	if d := &traceOf(ctx).deed; owner != d.caller.User {
		d.owner = string(owner)
	}
}

// audited is do, told in words when it has succeeded. say gives the words, and none where nothing was changed.
func audited[In, Out any](
	s *Server, do func(*http.Request, In) (Out, error), say func(r *http.Request, in In, out Out) (what string, which []any),
) func(*http.Request, In) (Out, error) {
	return func(r *http.Request, in In) (Out, error) {
		out, err := do(r, in)
		if err != nil {
			return out, err
		}
		if what, which := say(r, in, out); what != "" {
			s.audit(r, what, which...)
		}
		return out, nil
	}
}

// changes reports whether a request of a route of the service's own is there to change something.
func changes(method, route string) bool {
	return !reads(method) && !changesNothing()[actionOf(method, route)]
}

// reads reports whether a method only looks.
func reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// changesNothing are the routes that take a body and change nothing.
func changesNothing() map[string]bool {
	return map[string]bool{"POST /jobs/check": true, "POST /userflavors": true, "POST /usercredits": true}
}

// actionOf names a route in the log and in the tables here.
func actionOf(method, route string) string {
	return method + " " + strings.TrimSuffix(strings.TrimPrefix(route, hubapi.Base), "/")
}

// record writes the line of a request to a route of the service's own.
func (s *Server) record(r *http.Request, t *trace, route string, status int) {
	if t.deed.what == "" && !changes(r.Method, route) {
		return
	}
	action, d := actionOf(r.Method, route), t.deed
	result, what := judged(status, d.wrong)
	if result == auditDone {
		what = cmp.Or(d.what, deedWords()[action])
	}
	attrs := d.which
	if result != auditDone {
		attrs = nil
	}
	for _, id := range d.ended {
		attrs = append(attrs, "ended", id)
	}
	attrs = append(attrs, s.who(r.Context(), d)...)
	if changes(r.Method, route) && !ofKernels(route) { // the path of a look may open something, and the id of a new kernel does
		attrs = append(attrs, objects(r)...)
	}
	attrs = append(attrs, s.whose(d)...)
	attrs = append(attrs, "audit", result, "action", action, "request", t.id)
	if result != auditDone {
		attrs = append(attrs, "status", status, "why", d.wrong)
	}
	s.logOf(t).Log(r.Context(), slog.LevelInfo, what, attrs...)
}

// auditDone is the result of what was done.
const auditDone = "done"

// judged returns what came of an action by the status of its answer, 0 when there was none; and the words for what was not done.
func judged(status int, wrong string) (result, what string) {
	switch {
	case status == 0 || status == statusGone:
		return "broken off", "an action was broken off"
	case status >= http.StatusInternalServerError && status != errs.RowOf(errs.Missing).Status: // what this site lacks is no fault
		return "failed", "an action has failed"
	case status >= http.StatusBadRequest:
		return "refused", "an action is refused"
	case wrong != "":
		return "failed", "an action has failed"
	}
	return auditDone, ""
}

// Audit writes the line of what a user has done by a door that is none of the routes': what in words, once it is done, and the error that it
// came to otherwise.
func (s *Server) Audit(ctx context.Context, c spawner.Caller, door, action, what string, err error, which ...any) {
	status, why := http.StatusOK, ""
	if err != nil {
		status, why = errs.RowOf(errs.KindOf(err)).Status, errs.Brief(err)
	}
	if errors.Is(err, context.Canceled) {
		status = 0
	}
	result, words := judged(status, why)
	attrs := append(slices.Clone(which), s.who(ctx, deed{caller: c, door: door})...)
	attrs = append(attrs, "audit", result, "action", action)
	if result != auditDone {
		attrs = append(attrs, "status", status, "why", why)
	}
	s.log.Log(ctx, slog.LevelInfo, cmp.Or(words, what), attrs...)
}

// who says who asks, as far as that is known.
func (s *Server) who(ctx context.Context, d deed) []any {
	c := d.caller
	if c == (spawner.Caller{}) {
		return []any{"by", "nobody known", "door", d.door}
	}
	attrs := []any{"by", callerName(c), "user", c.User, "hub", c.Hub, "door", d.door}
	if c.User != "" && s.cfg.Principal != nil {
		attrs = append(attrs, "principal", s.cfg.Principal(c.Hub, c.User))
	}
	if c.User != "" && s.cfg.People != nil {
		if uid, known := s.cfg.People.UID(ctx, c.Hub, c.User); known {
			attrs = append(attrs, "uid", uid)
		}
	}
	return attrs
}

// whose says whose something is that another does something to. A Hub's spawner has no principal of its own: the line has the owner's.
func (s *Server) whose(d deed) []any {
	if d.owner == "" {
		return nil
	}
	owner := d.owner[:min(len(d.owner), mostWord)]
	attrs := []any{"owner", owner}
	if d.caller.User == "" && d.caller.Hub != "" && s.cfg.Principal != nil {
		attrs = append(attrs, "principal", s.cfg.Principal(d.caller.Hub, spawner.User(owner)))
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

func auditShared(_ *http.Request, in hubapi.Share, out hubapi.Environment) (string, []any) {
	return "an environment is shared", []any{"environment", out.Digest, "name", out.Name, "tag", out.Tag, "with", in.With, "group", in.Group}
}

func auditRemoved(r *http.Request, _ none, out hubapi.Removed) (string, []any) {
	ref, _ := param(r, "ref")
	return "an environment's name is removed", []any{"environment", out.Digest, "removed", ref, "left", out.Names}
}

func auditSwept(_ *http.Request, _ none, out hubapi.Swept) (string, []any) {
	if out.Dry {
		return "", nil
	}
	return "environments that nobody uses are removed", []any{"environments", out.Environments, "bases", out.Bases, "bytes", out.Bytes}
}

func auditSession(_ *http.Request, in hubapi.SessionRequest, out hubapi.Session) (string, []any) {
	return "a session is started", []any{"session", out.ID, "of", in.User, "name", in.ServerName}
}

func auditSubmitted(_ *http.Request, _ hubapi.JobRequest, out any) (string, []any) {
	switch out := out.(type) {
	case hubapi.Job:
		return "a job is submitted", []any{"job", out.ID, "environment", out.Environment}
	case hubapi.Jobs:
		return "a scan is submitted", scanFields(out.Scans[0])
	}
	return "a job is submitted", nil
}
