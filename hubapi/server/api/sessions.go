package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/offers"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

const (
	waitTime   = 20 * time.Second // of a long poll
	stopTime   = 2 * time.Minute
	removeTime = 20 * time.Second
	tailLimit  = 10_000 // lines
)

func (s *API) me(r *http.Request, _ web.None) (hubapi.Me, error) {
	c := web.CallerOf(r.Context())
	return hubapi.Me{User: string(c.User), Hub: c.Hub, Admin: c.Admin, Session: string(c.Workload)}, nil
}

// Find returns the workload that the path names, if it is of the kind that the route is for.
func (s *API) Find(r *http.Request, job bool) (spawner.Workload, error) {
	name, err := web.Param(r, "id")
	if err != nil {
		return spawner.Workload{}, err
	}
	c, id := web.CallerOf(r.Context()), spawner.ID(name)
	if id == hubapi.Self {
		if id = c.Workload; id == "" {
			return spawner.Workload{}, errs.Bad("id", hubapi.Self, "the id of a session, as `slipway sessions` lists them: only programs inside one have a self")
		}
	}
	w, err := s.cfg.Workloads.Get(r.Context(), c, id)
	if err == nil {
		audit.OnBehalf(r.Context(), w.Owner)
	}
	if err == nil && w.Kind.Session() == job {
		return spawner.Workload{}, errs.New(errs.NotFound, "%s is of the other kind", id).
			With("sessions are below /sessions, jobs below /jobs")
	}
	return w, err
}

func (s *API) sessionEvents(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Find(r, false)
	if err != nil {
		return err
	}
	return s.cfg.Feeds.Launch(w, r, found.ID)
}

func (s *API) startSession(r *http.Request, req hubapi.SessionRequest) (hubapi.Session, error) {
	audit.OnBehalf(r.Context(), spawner.User(req.User))
	fresh, err := offers.TakeFresh(req.Options)
	if err != nil {
		return hubapi.Session{}, err
	}
	from, err := s.takeEnvironment(r.Context(), web.CallerOf(r.Context()), req)
	if err != nil {
		return hubapi.Session{}, err
	}
	kind, spec, err := s.cfg.Offers.Of(web.CallerOf(r.Context()).Hub, spawner.User(req.User)).Resolve(req.Options)
	if err != nil {
		return hubapi.Session{}, err
	}
	prefix, err := s.cfg.Hubs.Named(web.CallerOf(r.Context()).Hub).SessionPrefix(req.Prefix)
	if err != nil {
		return hubapi.Session{}, err
	}
	spec.Argv, spec.Prefix, spec.Ready, spec.Environment = req.Argv, prefix, req.Prefix+spec.Ready, from
	w, err := s.cfg.Sessions.StartSession(r.Context(), web.CallerOf(r.Context()), spawner.SessionRequest{
		User: spawner.User(req.User), Name: req.ServerName, Kind: kind, Spec: spec,
		Backend: s.cfg.Catalogue.Backend(spec.Profile), Launch: req.Launch, Fresh: fresh,
		Secrets: s.cfg.Hubs.Named(web.CallerOf(r.Context()).Hub).SessionEnv(req.Env),
	})
	return s.cfg.Convert.Session(w), err
}

func (s *API) listSessions(r *http.Request, _ web.None) (hubapi.Sessions, error) {
	list := hubapi.Sessions{Sessions: []hubapi.Session{}}
	all, err := s.cfg.Workloads.List(r.Context(), web.CallerOf(r.Context()))
	if err != nil {
		return list, err
	}
	q := r.URL.Query()
	for _, w := range all {
		if w.Kind.Session() && (!q.Has("user") || q.Get("user") == string(w.Owner)) && (!q.Has("name") ||
			w.Kind.HubServer() && q.Get("name") == w.Name) {
			list.Sessions = append(list.Sessions, s.cfg.Convert.Session(w))
		}
	}
	return list, nil
}

func (s *API) session(r *http.Request, _ web.None) (hubapi.Session, error) {
	w, err := s.Find(r, false)
	return s.cfg.Convert.Session(w), err
}

// waitSession answers as soon as the start has come to its end, good or bad, or after a while with the session as it
// is.
func (s *API) waitSession(r *http.Request, _ web.None) (hubapi.Session, error) {
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
	return s.cfg.Convert.Session(w), err
}

// await waits for a workload, at most limit.
func (s *API) await(
	r *http.Request, id spawner.ID, limit time.Duration, done func(spawner.Workload) bool,
) (spawner.Workload, error) {
	ctx, cancel := s.cfg.Web.Stream(r.Context())
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, limit)
	defer cancel()
	return s.cfg.Workloads.Await(ctx, web.CallerOf(r.Context()), id, done)
}

// stopSession ends a session and answers when it is stopped; with wait=no at once.
func (s *API) stopSession(r *http.Request, _ web.None) (hubapi.Session, error) {
	wait := r.URL.Query().Get("wait")
	if wait != "" && wait != "yes" && wait != "no" {
		return hubapi.Session{}, errs.Bad("wait", wait, "yes or no")
	}
	w, err := s.Find(r, false)
	if err != nil {
		return hubapi.Session{}, err
	}
	if w, err = s.cfg.Workloads.Stop(r.Context(), web.CallerOf(r.Context()), w.ID); err != nil || wait == "no" {
		return s.cfg.Convert.Session(w), err
	}
	w, err = s.await(r, w.ID, stopTime, func(w spawner.Workload) bool { return !w.Phase.Active() })
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = errs.New(errs.Unavailable, "session %s is still being stopped", w.ID).
			With("it goes on by itself; ask again in a moment")
	}
	return s.cfg.Convert.Session(w), err
}

// keepSession keeps a session running though nothing may go on in it.
func (s *API) keepSession(r *http.Request, req hubapi.KeepRequest) (hubapi.Session, error) {
	w, err := s.Find(r, false)
	if err != nil {
		return hubapi.Session{}, err
	}
	d, err := KeepTime(req.For)
	if err != nil {
		return hubapi.Session{}, err
	}
	w, err = s.cfg.Sessions.Keep(r.Context(), web.CallerOf(r.Context()), w.ID, d)
	return s.cfg.Convert.Session(w), err
}

// KeepTime reads how long a session is to be kept. How long it may be is the engine's to say.
func KeepTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, errs.Bad("for", fmt.Sprintf("%.40s", text), "a length of time such as 4h or 90m")
	}
	return d, nil
}

func (s *API) removeSession(r *http.Request, _ web.None) (web.None, error) {
	w, err := s.Find(r, false)
	if err != nil {
		return web.None{}, err
	}
	return web.None{}, s.remove(r, w.ID)
}

// remove discards a workload and waits a little until it is gone. That it goes is certain once the wish is saved.
func (s *API) remove(r *http.Request, id spawner.ID) error {
	if err := s.cfg.Workloads.Remove(r.Context(), web.CallerOf(r.Context()), id); err != nil {
		return err
	}
	_, err := s.await(r, id, removeTime, func(spawner.Workload) bool { return false })
	if errs.Is(err, errs.NotFound) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// removeSessionsOf discards all sessions of one server name: the Hub has deleted the server or the user.
func (s *API) removeSessionsOf(r *http.Request, _ web.None) (web.None, error) {
	c, q := web.CallerOf(r.Context()), r.URL.Query()
	if !c.Spawner {
		return web.None{}, errs.New(errs.Forbidden, "only a hub's spawner removes all sessions of a server").
			With("name one session by its id")
	}
	if q.Get("user") == "" || !q.Has("name") {
		return web.None{}, errs.Bad("user", q.Get("user"), "both user and name; the default server's name is empty")
	}
	audit.OnBehalf(r.Context(), spawner.User(q.Get("user")))
	list, err := s.cfg.Workloads.SessionsOf(r.Context(), c, spawner.User(q.Get("user")), q.Get("name"))
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

func (s *API) sessionLog(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Find(r, false)
	if err != nil {
		return err
	}
	lines, err := web.WholeNumber(r, "tail", 40, tailLimit)
	if err != nil {
		return err
	}
	text, err := s.cfg.Files.Tail(r.Context(), web.CallerOf(r.Context()), found.ID, int(lines))
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
