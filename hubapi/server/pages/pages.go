// Package pages is what people see of the service in a browser, below each hub's prefix. It logs visitors in by their
// Hub, shows what webui draws, and does what forms ask for through the API and the engine, as the visitor.
//
// Users' servers have the origin of these pages, and what runs in them may be somebody else's. So the cookie alone
// permits nothing: pages are given to navigations only, and forms and scripts send a token that only the page has.
package pages

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/feeds"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/offers"
	"slipway/hubapi/server/usage"
	"slipway/hubapi/server/web"
	"slipway/internal/accesstokens"
	"slipway/internal/devicelogin"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/internal/sshauth"
	"slipway/internal/webui"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// Workloads are what pages show. The engine has the contract of each method, as of those below.
type Workloads interface {
	Get(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	List(ctx context.Context, c spawner.Caller) ([]spawner.Workload, error)
	Each(ctx context.Context, c spawner.Caller, scan string, each func(w *spawner.Workload)) error
	SessionsOf(ctx context.Context, c spawner.Caller, user spawner.User, name string) ([]spawner.Workload, error)
	Events(ctx context.Context, c spawner.Caller, id spawner.ID, launch string, after int64) (iter.Seq[spawner.Event], error)
	Log(ctx context.Context, c spawner.Caller, id spawner.ID, from int64, follow bool) (io.ReadCloser, error)
	Tail(ctx context.Context, c spawner.Caller, id spawner.ID, lines int) (string, error)
	Code(ctx context.Context, c spawner.Caller, id spawner.ID) (name, text string, err error)
}

// Actions are what the buttons of pages do.
type Actions interface {
	Stop(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	Keep(ctx context.Context, c spawner.Caller, id spawner.ID, d time.Duration) (spawner.Workload, error)
	Remove(ctx context.Context, c spawner.Caller, id spawner.ID) error
	Hold(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	Release(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	Requeue(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
}

// Status is what more there is to say of a workload than its record does.
type Status interface {
	Queue(w spawner.Workload) spawner.Queue
	Detail(w spawner.Workload) string
	PlannedStop(w spawner.Workload) spawner.PlannedStop
	Alerts(w spawner.Workload) []spawner.Alert
	Expires(w spawner.Workload) time.Time
}

// Config is what Pages need. What is nil there has no pages.
type Config struct {
	// The other rooms of the server.
	Web     *web.Core
	API     *api.API
	Hubs    *hubs.Set
	Offers  *offers.Offers
	Convert *convert.Converter
	Feeds   *feeds.Feeds
	Usage   *usage.Room

	Workloads       Workloads
	Actions         Actions
	Status          Status
	Catalogue       catalog.Catalogue
	Policy          catalog.JobPolicy
	Environments    api.Environments
	GPUs            bool // there is something of them to show
	Kernels         bool // paths of kernels below a hub's prefix go to the routes
	KnownQuota      func(w spawner.Workload) []hubapi.Quota
	Pool            api.Pool
	Logins          *devicelogin.Logins
	Tokens          *accesstokens.Tokens
	SSH             *sshauth.Authority
	UserCredentials api.UserCredentials
	Box             *secret.Box // seals what browsers keep
}

// Pages serve a hub's users. A visitor is known by a cookie that names a visit; a visit holds the user's token of the
// Hub, which is asked about it again and again: who is logged out there is out here.
type Pages struct {
	cfg    Config
	visits *visits
	sight  *poolSight
	cross  *http.CrossOriginProtection
	router chi.Router
}

// New makes Pages.
func New(cfg Config) *Pages {
	p := &Pages{
		cfg: cfg, visits: newVisits(), sight: &poolSight{}, cross: http.NewCrossOriginProtection(),
		router: chi.NewRouter(),
	}
	p.router.Use(web.AnyMethod(func() chi.Routes { return p.router }))
	p.router.Route(web.PagesRoute, func(r chi.Router) {
		r.NotFound(p.nothing)
		r.MethodNotAllowed(p.nothing)
		p.cfg.API.DocumentRoutes(r) // whoever reaches the Hub alone reads it too
		r.Get("/", p.show(p.overview))
		r.Get("/oauth_callback", web.GetOnly(p.callback))
		r.Get("/logged_out", p.loggedOut)
		r.Post("/logout", p.act(p.logout))
		r.Post("/theme", p.setTheme)
		r.Get("/room", web.GetOnly(p.room))
		r.Get("/usage", p.show(p.usagePage))
		r.Get("/help", p.show(p.help))
		r.Get("/gpus", p.show(p.gpusPage))
		r.Get("/gpus/pool", p.show(p.poolPage))
		p.environmentPages(r)
		p.jobPages(r)
		p.deviceLoginPages(r)
		p.sshPages(r)
		p.credentialPages(r)
		r.Post("/sessions/{id}/check", p.act(p.checkDataPage))
		for _, kind := range []string{"/sessions/{id}", "/jobs/{id}"} {
			r.Get(kind, p.show(p.single))
			r.Get(kind+"/why", p.show(p.why))
			r.Get(kind+"/discard", p.show(p.askDiscard))
			r.Get(kind+"/events", web.GetOnly(p.pageEvents))
			r.Post(kind+"/stop", p.act(p.stop))
			r.Post(kind+"/keep", p.act(p.keep))
			r.Post(kind+"/discard", p.act(p.discard))
		}
	})
	return p
}

// Middleware puts the pages before the routes. Basic credentials are a hub's OutpostSpawner's, which may have paths
// below the same prefix.
func (p *Pages) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, rest, ok := p.pagesOf(r)
		if !ok || web.IsBasic(r) {
			next.ServeHTTP(w, r)
			return
		}
		if p.cfg.Kernels && strings.HasPrefix(rest, web.KernelsPath+"/") { // who reaches the Hub alone has kernels too
			chi.RouteContext(r.Context()).RoutePath = rest
			next.ServeHTTP(w, r)
			return
		}
		if rest == "" {
			http.Redirect(w, r, h.PagesPrefix, http.StatusFound)
			return
		}
		chi.RouteContext(r.Context()).RoutePath = web.PagesRoute + rest
		p.router.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), pageKey{}, h)))
	})
}

// Routes returns the routes of the pages, below /pages for any prefix.
func (p *Pages) Routes() chi.Routes { return p.router }

type pageKey struct{}

// hubOfPage returns the hub whose page is asked for.
func hubOfPage(ctx context.Context) hubs.Hub {
	h, _ := ctx.Value(pageKey{}).(hubs.Hub)
	return h
}

// pagesOf returns the hub below whose prefix a request lies, and the path below it: with a slash at its beginning, or
// empty where the prefix lacks its last slash.
func (p *Pages) pagesOf(r *http.Request) (found hubs.Hub, rest string, ok bool) {
	path := r.URL.EscapedPath()
	for _, h := range p.cfg.Hubs.Of(r.Context()) {
		below, in := strings.CutPrefix(path, strings.TrimSuffix(h.PagesPrefix, "/"))
		if h.HasPages() && in && (below == "" || below[0] == '/') {
			return h, below, true
		}
	}
	return hubs.Hub{}, "", false
}

// visitor is who looks at a page.
type visitor struct {
	visit
	key    string
	hub    hubs.Hub
	caller spawner.Caller
	theme  string // light, dark or empty
}

// view is what pages show of it.
func (p *Pages) view(v visitor) webui.Visit {
	return webui.Visit{
		GPUs: p.cfg.GPUs, Pool: p.cfg.Pool != nil, Environments: p.cfg.Environments != nil, SSH: p.cfg.SSH != nil,
		Credentials: p.cfg.UserCredentials != nil || p.cfg.Tokens != nil,
		User:        string(v.caller.User), Admin: v.caller.Admin, Prefix: v.hub.PagesPrefix, Home: v.hub.Home(),
		Form: v.form, Stream: v.stream, Theme: v.theme,
	}
}

// show makes a handler of a page: for people who navigate, and for the page's own script. Who is not known is sent to
// the Hub.
func (p *Pages) show(do func(w http.ResponseWriter, r *http.Request, v visitor) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := p.visitor(r)
		navigates := navigation(r)
		switch {
		case errs.Is(err, errs.Unauthorized) && navigates:
			err = p.begin(w, r)
		case err == nil && !navigates && !same(r.Header.Get("X-Slipway-Page"), v.form):
			err = errs.New(errs.Forbidden, "this page is for people, not for scripts").
				With("programs use the API below /api/v1")
		case err == nil:
			err = do(w, r, v)
		}
		if err != nil {
			p.problem(w, r, err)
		}
	}
}

// navigation reports whether a person goes to the page. Browsers of before 2023 do not say.
func navigation(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return mode == "" || mode == "navigate"
}

// act makes a handler of what a form asks for: it gives the path, below the prefix, where the browser goes then.
func (p *Pages) act(do func(r *http.Request, v visitor) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		to, err := p.acted(w, r, do)
		if err != nil {
			p.problem(w, r, err)
			return
		}
		if r.URL.Path == hubOfPage(r.Context()).PagesPrefix+"logout" {
			p.setCookie(w, r, web.VisitCookie, "", -1)
		}
		http.Redirect(w, r, hubOfPage(r.Context()).PagesPrefix+to, http.StatusSeeOther)
	}
}

// The most bytes of a form, and of one with a file.
const (
	formLimit = 64 << 10
	fileLimit = 256 << 10
)

func (p *Pages) acted(
	w http.ResponseWriter, r *http.Request, do func(r *http.Request, v visitor) (string, error),
) (string, error) {
	again := "go back to the page, load it again, and try once more"
	if err := p.cross.Check(r); err != nil {
		return "", errs.New(errs.Forbidden, "the request comes from another site").With(again)
	}
	v, err := p.visitor(r)
	if err != nil {
		return "", err
	}
	if err := parseForm(w, r); err != nil {
		return "", errs.New(errs.Invalid, "the form cannot be read").With(again)
	}
	if !same(r.PostForm.Get("token"), v.form) {
		return "", errs.New(errs.Forbidden, "the form is not of a page that you have open").With(again)
	}
	return do(r, v)
}

// parseForm reads a form. A file in it stays in memory: no copy lies on a disk.
func parseForm(w http.ResponseWriter, r *http.Request) error {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		r.Body = http.MaxBytesReader(w, r.Body, formLimit)
		return r.ParseForm()
	}
	r.Body = http.MaxBytesReader(w, r.Body, fileLimit)
	return r.ParseMultipartForm(fileLimit)
}

// hubSessionCookie is the Hub's cookie that names a login there; it is sent to all of the Hub's origin.
const hubSessionCookie = "jupyterhub-session-id"

// visitor finds who asks; Unauthorized when nobody is known or the Hub does not vouch any more.
//
// A script of a user's server can put cookies into the browser for any path, its owner's visit among them. So a visit
// counts only beside the Hub's own session in which it was begun, and not while cookies name two of those.
func (p *Pages) visitor(r *http.Request) (visitor, error) {
	audit.Of(r.Context()).Door = audit.DoorPage
	session, err := hubSession(r)
	if err != nil {
		return visitor{}, err
	}
	wrong := errs.New(errs.Unauthorized, "you are not logged in").With("open the page again: the Hub logs you in")
	for _, cookie := range r.CookiesNamed(web.VisitCookie) {
		v, err := p.visit(r, cookie.Value, session)
		if err == nil || !errs.Is(err, errs.Unauthorized) {
			return v, err
		}
		wrong = errs.New(errs.Unauthorized, "your login has ended").With("open the page again: the Hub logs you in")
	}
	return visitor{}, wrong
}

// hubSession returns the session of the Hub's in the browser; empty where the Hub's cookie does not come here.
func hubSession(r *http.Request) (string, error) {
	session := ""
	for _, cookie := range r.CookiesNamed(hubSessionCookie) {
		if session != "" && cookie.Value != session {
			return "", errs.New(
				errs.Forbidden,
				"your browser sends two different cookies %s: a server that you have visited may have made one of them",
				hubSessionCookie,
			).With("delete the cookies of this site in your browser and log in again; if it comes back, tell your administrator which servers of other users you have visited")
		}
		session = cookie.Value
	}
	return session, nil
}

// visit finds the visitor of a visit that was begun in a session of the Hub's.
func (p *Pages) visit(r *http.Request, key, session string) (visitor, error) {
	h := hubOfPage(r.Context())
	v, ok := p.visits.find(key, h.Name)
	if !ok {
		return visitor{}, errs.New(errs.Unauthorized, "there is no such visit")
	}
	id, err := h.Identify(r.Context(), v.token.Reveal())
	switch {
	case err == nil && id.Session != "" && session != "" && id.Session != session:
		return visitor{}, errs.New(errs.Unauthorized, "the visit is of another login at the Hub")
	case errs.Is(err, errs.Unauthorized):
		p.visits.drop(key)
	}
	if err != nil {
		return visitor{}, err
	}
	c := h.Caller(id)
	web.Known(r.Context(), c)
	return visitor{visit: v, key: key, hub: h, caller: c, theme: themeOf(r)}, nil
}

// nothing answers for a path that is no page.
func (p *Pages) nothing(w http.ResponseWriter, r *http.Request) {
	p.problem(w, r, errs.New(errs.NotFound, "there is no such page").
		With("the page of all your sessions and jobs leads to the others"))
}

// problem answers with an error, as a page that says what to do next.
func (p *Pages) problem(w http.ResponseWriter, r *http.Request, err error) {
	body := p.cfg.Web.ErrorBody(r, err)
	kind := errs.ByCode(body.Error.Code)
	n := webui.Notice{
		Status: errs.RowOf(kind).Status, Title: "That did not work", Text: web.Sentence(body.Error.Message),
		Next: web.Sentence(body.Error.Remedy),
		Link: hubOfPage(r.Context()).PagesPrefix, Label: "Sessions and jobs",
	}
	rest, _ := strings.CutPrefix(r.URL.EscapedPath(), n.Link)
	there := r.Method == http.MethodPost && kind != errs.NotFound
	if link, label := pagesBack(rest, there); link != "" && kind != errs.Unauthorized && kind != errs.Missing {
		n.Link, n.Label = n.Link+link, label
	}
	switch kind {
	case errs.NotFound:
		n.Title = "Not found"
	case errs.Unauthorized:
		n.Title, n.Label = "Not logged in", "Log in"
	case errs.Forbidden:
		n.Title = "Not permitted"
	case errs.Unavailable:
		n.Title = "Not available now"
		if r.Method == http.MethodGet && !errors.Is(r.Context().Err(), context.Canceled) {
			n.RefreshAfter = 10
		}
	}
	webui.Tell(w, r, n)
}
