// Package proxy carries requests to sessions, and the requests of programs in sessions to their Hub.
//
// What a session answers is the session's alone: cookies, headers and service workers that would reach beyond its
// prefix are taken out, as all sessions, the Hub and the service's pages have one origin. The session is asked who may
// do what; a login of the service's pages never gets there. A workload reaches its Hub's REST API and nothing else of
// its network.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/agent/control"
	"slipway/internal/webui"
	"slipway/spawner"
)

// Engine is what the package needs of the engine, which has the contract of each method.
type Engine interface {
	Get(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	SessionsOf(ctx context.Context, c spawner.Caller, user spawner.User, name string) ([]spawner.Workload, error)
	Await(ctx context.Context, c spawner.Caller, id spawner.ID, done func(spawner.Workload) bool) (spawner.Workload, error)
	Visit(id spawner.ID, acted bool)
	Route(hub, path string) (spawner.ID, bool)
}

// Dial opens a connection to a program of a running session.
type Dial func(ctx context.Context, id spawner.ID) (net.Conn, error)

// Config is what a Proxy needs.
type Config struct {
	Engine   Engine
	Dial     Dial // to its app
	DialCode Dial // to VS Code beside it
	Hubs     *hubs.Set
	Logger   *slog.Logger
}

// Proxy is the session proxy: what is no route of the service's own goes to the session whose prefix the path has.
type Proxy struct {
	cfg     Config
	web     *web.Core
	hubs    *hubs.Set
	log     *slog.Logger
	holds   *holds
	forward http.Handler
}

// New makes a Proxy.
func New(cfg Config, core *web.Core) *Proxy {
	p := &Proxy{cfg: cfg, web: core, hubs: cfg.Hubs, log: cfg.Logger, holds: newHolds()}
	p.forward = p.forwarder()
	return p
}

// proxyBuffer is what a copy moves at once: with the usual 32 KiB a large download costs a quarter more.
const proxyBuffer = 128 << 10

// buffers is a pool of copy buffers.
type buffers struct{ pool sync.Pool }

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, proxyBuffer)
}

// Put takes a buffer back.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// errDial marks an error of opening a connection, when nothing has been sent yet.
var errDial = errors.New("the session cannot be reached")

// forwarder forwards a request to the session that it is for.
func (p *Proxy) forwarder() http.Handler {
	transport := &http.Transport{
		// The host is the session's id, so that each session has a pool of connections of its own, and VS Code beside
		// it another. A link that drops ends its connections, which takes them out of the pool.
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, _, _ := strings.Cut(addr, ":")
			id, code := strings.CutSuffix(host, codeHost)
			dial := p.cfg.Dial
			if code {
				dial = p.cfg.DialCode
			}
			c, err := dial(ctx, spawner.ID(id))
			if err != nil {
				return nil, errors.Join(errDial, err)
			}
			return c, nil
		},
		// A connection has its own two buffers of 4 KiB, as the transport has it, also while it is idle: with a
		// thousand users and several connections each, larger ones are most of the service's memory. What is copied
		// goes past them.
		MaxIdleConnsPerHost: 32, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}
	return &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: transport, FlushInterval: -1, BufferPool: &buffers{}, ErrorHandler: p.proxyFailed,
		ModifyResponse: p.answered,
		ErrorLog:       slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
}

type targetKey struct{}

// target is where a request goes.
type target struct {
	id     spawner.ID
	prefix string
	code   bool // to VS Code beside the app

	hostCookie string // see hostCookieOf
}

// codeHost ends the name of the host that VS Code beside an app is to the transport.
const codeHost = ".code"

// forCode reports whether a request is for VS Code beside the app of a session: on its path, or on its way back from a
// login by the Hub, which knows one address for all that a session has.
func forCode(r *http.Request, w spawner.Workload) bool {
	rest, inside := strings.CutPrefix(r.URL.Path, w.Spec.Prefix)
	switch {
	case !inside || w.Kind == spawner.Code:
		return false
	case rest == "oauth_callback":
		return strings.HasPrefix(r.URL.Query().Get("state"), control.CodeState)
	}
	return rest+"/" == control.CodePath || strings.HasPrefix(rest, control.CodePath)
}

// ServeHTTP finds the session whose prefix a path has, and forwards to it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, ok := p.route(r.Context(), r.URL.Path)
	if !ok || r.Method == http.MethodConnect {
		p.noSession(w, r)
		return
	}
	found, err := p.cfg.Engine.Get(r.Context(), web.Service(), id)
	if err != nil || !strings.HasPrefix(r.URL.Path, found.Spec.Prefix) {
		p.tellNoSession(w, r)
		return
	}
	web.TraceOf(r.Context()).Caller = "visitor of " + string(id)
	if isProbe(r, found) {
		found = p.hold(r.Context(), found)
	}
	if found.Phase != spawner.Running {
		webui.NotUp(w, r, string(found.Phase))
		return
	}
	web.TraceOf(r.Context()).Forwarded = true
	// Else what is written of the answer first closes the request's body, and the transport, which looks once more
	// whether all of it has gone out, takes that for a failure and closes the connection with the answer still on it
	// (golang.org/issue/40747).
	_ = http.NewResponseController(w).EnableFullDuplex() // it fails where there is no such thing
	to := target{id, found.Spec.Prefix, forCode(r, found), hostCookieOf(found.Spec.Env)}
	p.forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, to)))
}

// isProbe reports whether a request is the Hub's question whether a session is up.
func isProbe(r *http.Request, w spawner.Workload) bool {
	return anonymous(r) && r.URL.Path == w.Spec.Prefix+"api"
}

func anonymous(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Cookie") == "" && r.Header.Get("Authorization") == ""
}

// isLateProbe reports whether a Hub asks whether a session is up that has ended already. OutpostSpawner has its answer
// before the session runs, so that its Hub waits for the session itself, and takes any answer below 500 for one that is
// up.
func (p *Proxy) isLateProbe(r *http.Request) bool {
	if !anonymous(r) || !strings.HasSuffix(r.URL.Path, "/api") {
		return false
	}
	prefix := strings.TrimSuffix(r.URL.Path, "api")
	for _, h := range p.hubs.Of(r.Context()) {
		for _, of := range h.ServersAt(prefix) {
			found, err := p.cfg.Engine.SessionsOf(
				r.Context(), spawner.Caller{Hub: h.Name, System: true}, of.User, of.Name,
			)
			waiting := func(w spawner.Workload) bool { return w.Spec.EventsURL != "" && w.Spec.Prefix == prefix }
			if err == nil && slices.ContainsFunc(found, waiting) {
				return true
			}
		}
	}
	return false
}

// probePatience is how long the Hub's question is held: its client gives up after 20 s.
const probePatience = 15 * time.Second

// hold waits until a session that is on its way up runs or has ended: an answer that it is not up makes the Hub wait
// for seconds before it asks again.
func (p *Proxy) hold(ctx context.Context, w spawner.Workload) spawner.Workload {
	if !convert.ComingUp(w.Phase) || !p.holds.take(w.ID) {
		return w
	}
	defer p.holds.release(w.ID)
	ctx, cancel := p.web.Stream(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, probePatience)
	defer cancel()
	now, err := p.cfg.Engine.Await(
		ctx, web.Service(), w.ID, func(w spawner.Workload) bool { return !convert.ComingUp(w.Phase) },
	)
	if err != nil {
		return w // as it was: not up
	}
	return now
}

// answered looks at a session's answer before it goes on.
func (p *Proxy) answered(res *http.Response) error {
	confine(res)
	p.visited(res)
	return nil
}

// visited tells the engine of a visit. What the session refuses, or sends to its login, is none: a credential that is
// worth nothing must not keep a session running.
func (p *Proxy) visited(res *http.Response) {
	r := res.Request
	if to, ok := r.Context().Value(targetKey{}).(target); ok && isVisit(r) && letIn(res.StatusCode) {
		p.cfg.Engine.Visit(to.id, acts(r, to.prefix))
	}
}

// acts reports whether a request is to change something. JupyterLab's page saves its own layout every ten seconds for
// as long as it is open, which says nothing of anybody in front of it.
func acts(r *http.Request, prefix string) bool {
	if audit.Reads(r.Method) {
		return false
	}
	return !strings.HasPrefix(r.URL.Path, prefix+"lab/api/workspaces/")
}

// letIn reports whether an answer is one to somebody who may have it.
func letIn(status int) bool {
	return status < http.StatusMultipleChoices || status == http.StatusNotModified
}

// isVisit reports whether a request comes from somebody: the Hub's own questions carry no credential.
func isVisit(r *http.Request) bool {
	return r.Header.Get("Cookie") != "" || r.Header.Get("Authorization") != "" || r.Header.Get("Upgrade") != "" ||
		strings.Contains(r.URL.RawQuery, "token=") && r.URL.Query().Has("token")
}

// noSession answers for a path of no session. A prefix that lacks only its last slash is led to the session, as servers
// do.
func (p *Proxy) noSession(w http.ResponseWriter, r *http.Request) {
	with := r.URL.Path + "/"
	if id, ok := p.route(r.Context(), with); ok && r.Method == http.MethodGet {
		if found, err := p.cfg.Engine.Get(r.Context(), web.Service(), id); err == nil && found.Spec.Prefix == with {
			to := url.URL{Path: with, RawQuery: r.URL.RawQuery}
			http.Redirect(w, r, to.String(), http.StatusFound)
			return
		}
	}
	if p.isLateProbe(r) {
		webui.NotUp(w, r, "not running")
		return
	}
	p.tellNoSession(w, r)
}

func (p *Proxy) tellNoSession(w http.ResponseWriter, r *http.Request) {
	for _, h := range p.hubs.Of(r.Context()) {
		if strings.HasPrefix(r.URL.EscapedPath(), h.Base()+"user/") {
			webui.NoSession(w, r, true, h.PagesPrefix)
			return
		}
	}
	webui.NoSession(w, r, false, "")
}

// rewrite aims a request at its session and leaves all else as the Hub's proxy has sent it: host, forwarding headers,
// path and query byte by byte. Only the cookies that are no business of a session's stay behind.
func rewrite(p *httputil.ProxyRequest) {
	to, _ := p.In.Context().Value(targetKey{}).(target)
	if p.Out.URL.Scheme, p.Out.URL.Host = "http", string(to.id); to.code {
		p.Out.URL.Host += codeHost
	}
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Host = p.In.Host
	keepCredentials(p.Out.Header)
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := p.In.Header[name]; ok {
			p.Out.Header[name] = v
		}
	}
}

// proxyFailed answers in place of a session that cannot.
func (p *Proxy) proxyFailed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the visitor has gone
	}
	p.log.Debug("session proxy", "request", web.TraceOf(r.Context()).ID, "error", err)
	web.TraceOf(r.Context()).Forwarded = false // what follows is the service's own
	if errors.Is(err, errDial) {
		webui.NotUp(w, r, "not connected")
		return
	}
	webui.Gone(w, r)
}

// route finds the session to which a path belongs.
func (p *Proxy) route(ctx context.Context, path string) (spawner.ID, bool) {
	for _, h := range p.hubs.Of(ctx) {
		if id, ok := p.cfg.Engine.Route(h.Name, path); ok {
			return id, true
		}
	}
	return "", false
}
