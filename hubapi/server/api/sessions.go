package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/feeds"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/offers"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

const (
	waitTime   = 20 * time.Second // of a long poll
	stopTime   = 2 * time.Minute
	removeTime = 20 * time.Second
	tailLimit  = 10_000 // lines
)

// SessionHandlers serve sessions.
type SessionHandlers struct {
	lookup
	hubs         *hubs.Set
	offers       *offers.Offers
	convert      *convert.Converter
	feeds        *feeds.Feeds
	sessions     Sessions
	files        Files
	catalogue    catalog.Catalogue
	environments Environments
	log          *slog.Logger
}

func (s *SessionHandlers) sessionEvents(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Find(r, false)
	if err != nil {
		return err
	}
	return s.feeds.Launch(w, r, found.ID)
}

func (s *SessionHandlers) startSession(r *http.Request, req hubapi.SessionRequest) (hubapi.Session, error) {
	audit.OnBehalf(r.Context(), spawner.User(req.User))
	fresh, err := offers.TakeFresh(req.Options)
	if err != nil {
		return hubapi.Session{}, err
	}
	from, err := s.takeEnvironment(r.Context(), web.CallerOf(r.Context()), req)
	if err != nil {
		return hubapi.Session{}, err
	}
	kind, spec, err := s.offers.Of(web.CallerOf(r.Context()).Hub, spawner.User(req.User)).Resolve(req.Options)
	if err != nil {
		return hubapi.Session{}, err
	}
	prefix, err := s.hubs.Named(web.CallerOf(r.Context()).Hub).SessionPrefix(req.Prefix)
	if err != nil {
		return hubapi.Session{}, err
	}
	spec.Argv, spec.Prefix, spec.Ready, spec.Environment = req.Argv, prefix, req.Prefix+spec.Ready, from
	w, err := s.sessions.StartSession(r.Context(), web.CallerOf(r.Context()), spawner.SessionRequest{
		User: spawner.User(req.User), Name: req.ServerName, Kind: kind, Spec: spec,
		Backend: s.catalogue.Backend(spec.Profile), Launch: req.Launch, Fresh: fresh,
		Secrets: s.hubs.Named(web.CallerOf(r.Context()).Hub).SessionEnv(req.Env),
	})
	return s.convert.Session(w), err
}

func (s *SessionHandlers) listSessions(r *http.Request, _ web.None) (hubapi.Sessions, error) {
	list := hubapi.Sessions{Sessions: []hubapi.Session{}}
	all, err := s.workloads.List(r.Context(), web.CallerOf(r.Context()))
	if err != nil {
		return list, err
	}
	q := r.URL.Query()
	for _, w := range all {
		if w.Kind.Session() && (!q.Has("user") || q.Get("user") == string(w.Owner)) && (!q.Has("name") ||
			w.Kind.HubServer() && q.Get("name") == w.Name) {
			list.Sessions = append(list.Sessions, s.convert.Session(w))
		}
	}
	return list, nil
}

func (s *SessionHandlers) session(r *http.Request, _ web.None) (hubapi.Session, error) {
	w, err := s.Find(r, false)
	return s.convert.Session(w), err
}

// waitSession answers as soon as the start has come to its end, good or bad, or after a while with the session as it
// is.
func (s *SessionHandlers) waitSession(r *http.Request, _ web.None) (hubapi.Session, error) {
	w, err := s.Find(r, false)
	if err != nil {
		return hubapi.Session{}, err
	}
	launch := r.URL.Query().Get("launch")
	settled := func(w spawner.Workload) bool {
		return w.Phase == spawner.Running || !w.Phase.Active() || (launch != "" && launch != w.Launch)
	}
	w, err = s.await(r, w.ID, waitTime, settled)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = nil
	}
	return s.convert.Session(w), err
}

// stopSession ends a session and answers when it is stopped; with wait=no at once.
func (s *SessionHandlers) stopSession(r *http.Request, _ web.None) (hubapi.Session, error) {
	wait := r.URL.Query().Get("wait")
	if wait != "" && wait != "yes" && wait != "no" {
		return hubapi.Session{}, errs.Bad("wait", wait, "yes or no")
	}
	w, err := s.Find(r, false)
	if err != nil {
		return hubapi.Session{}, err
	}
	if w, err = s.workloads.Stop(r.Context(), web.CallerOf(r.Context()), w.ID); err != nil || wait == "no" {
		return s.convert.Session(w), err
	}
	w, err = s.await(r, w.ID, stopTime, func(w spawner.Workload) bool { return !w.Phase.Active() })
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = errs.New(errs.Unavailable, "session %s is still being stopped", w.ID).
			With("it goes on by itself; ask again in a moment")
	}
	return s.convert.Session(w), err
}

// keepSession keeps a session running though nothing may go on in it.
func (s *SessionHandlers) keepSession(r *http.Request, req hubapi.KeepRequest) (hubapi.Session, error) {
	w, err := s.Find(r, false)
	if err != nil {
		return hubapi.Session{}, err
	}
	d, err := KeepTime(req.For)
	if err != nil {
		return hubapi.Session{}, err
	}
	w, err = s.sessions.Keep(r.Context(), web.CallerOf(r.Context()), w.ID, d)
	return s.convert.Session(w), err
}

// KeepTime reads how long a session is to be kept. How long it may be is the engine's to say.
func KeepTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, errs.Bad("for", fmt.Sprintf("%.40s", text), "a length of time such as 4h or 90m")
	}
	return d, nil
}

func (s *SessionHandlers) removeSession(r *http.Request, _ web.None) (web.None, error) {
	w, err := s.Find(r, false)
	if err != nil {
		return web.None{}, err
	}
	return web.None{}, s.remove(r, w.ID)
}

// removeSessionsOf discards all sessions of one server name: the Hub has deleted the server or the user.
func (s *SessionHandlers) removeSessionsOf(r *http.Request, _ web.None) (web.None, error) {
	c, q := web.CallerOf(r.Context()), r.URL.Query()
	if !c.Spawner {
		return web.None{}, errs.New(errs.Forbidden, "only a hub's spawner removes all sessions of a server").
			With("name one session by its id")
	}
	if q.Get("user") == "" || !q.Has("name") {
		return web.None{}, errs.Bad("user", q.Get("user"), "both user and name; the default server's name is empty")
	}
	audit.OnBehalf(r.Context(), spawner.User(q.Get("user")))
	list, err := s.workloads.SessionsOf(r.Context(), c, spawner.User(q.Get("user")), q.Get("name"))
	if err != nil {
		return web.None{}, err
	}
	for _, w := range list {
		if err := s.remove(r, w.ID); err != nil && !errs.Is(err, errs.NotFound) {
			return web.None{}, err
		}
	}
	return web.None{}, nil
}

func (s *SessionHandlers) sessionLog(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Find(r, false)
	if err != nil {
		return err
	}
	lines, err := web.WholeNumber(r, "tail", 40, tailLimit)
	if err != nil {
		return err
	}
	text, err := s.files.Tail(r.Context(), web.CallerOf(r.Context()), found.ID, int(lines))
	if err != nil {
		return err
	}
	web.AsText(w)
	_, _ = io.WriteString(w, text)
	return nil
}

func auditSession(_ *http.Request, in hubapi.SessionRequest, out hubapi.Session) (string, []any) {
	return "a session is started", []any{"session", out.ID, "of", in.User, "name", in.ServerName}
}
