// Package authproxy stands before a web program of a session that knows nothing of the Hub, as VS Code's server does:
// it logs visitors in by the Hub, lets in whom the Hub lets in, and hands on what they send, without the path below
// which the program lies.
//
// Promises: nobody gets past it of whom the Hub has not said that she may use this server; what the Hub takes back (a
// logout, a token, a share) ends within minutes, also on connections that are open; no credential of a visitor's
// reaches the program; a login leads nowhere but below the gate's own path. It must not know which program it is, nor
// how that is started.
package authproxy

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"time"
)

// Config is what a gate needs.
type Config struct {
	Env func(name string) string // what the Hub has put into the session's environment
	// Path below the session's prefix, with a slash at the end; empty: the whole session is the program.
	Below string
	Mark  string // begins what names a login, so that the way back from the Hub finds this gate
	Title string // names the program to its visitors
	// Hub opens a connection to the Hub's API.
	Hub func(ctx context.Context) (net.Conn, error)
	// App opens a connection to the program, and starts it if need be. A visitor is told its error.
	App    func(ctx context.Context) (net.Conn, error)
	Logger *slog.Logger
}

// Proxy is an http.Handler.
type Proxy struct {
	cfg      Config
	set      settings
	log      *slog.Logger
	hub      *hub
	logins   *logins
	visitors *visitors // by cookie
	programs *visitors // by token
	traffic  *traffic
	forward  *httputil.ReverseProxy
}

// New makes a gate. It fails when the environment is not that of a server of a Hub.
func New(cfg Config) (*Proxy, error) {
	set, err := settingsOf(cfg.Env, cfg.Below)
	if err != nil {
		return nil, err
	}
	g := &Proxy{
		cfg: cfg, set: set, log: cfg.Logger, hub: newHub(set, cfg.Hub), logins: newLogins(cfg.Mark),
		visitors: newVisitors(), programs: newVisitors(), traffic: newTraffic(),
	}
	g.forward = g.newForward()
	return g, nil
}

// ServeHTTP answers a visitor.
func (g *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, inside := strings.CutPrefix(r.URL.Path, g.set.base)
	switch {
	case winding(r.URL.Path):
		tell(w, r, notice{
			status: http.StatusBadRequest, title: "No such address", text: "The address has parts that lead elsewhere.",
		})
	case r.URL.Path == g.set.back:
		g.finish(w, r)
	case r.URL.Path+"/" == g.set.base && r.Method == http.MethodGet:
		http.Redirect(w, r, g.set.path, http.StatusFound)
	case !inside:
		http.NotFound(w, r)
	case g.cfg.Below == "" && rest == "api":
		g.answerHub(w, r)
	default:
		g.visit(w, r)
	}
}

// winding reports whether a path has parts that lead out of where they stand.
func winding(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return part == "." || part == ".." })
}

// answerHub answers the Hub's question whether the server is up. Nobody needs a login for it.
func (g *Proxy) answerHub(w http.ResponseWriter, r *http.Request) {
	c, err := g.cfg.App(r.Context())
	if err != nil {
		g.trouble(w, r, err)
		return
	}
	_ = c.Close()
	version := g.hub.version(r.Context())
	if version != "" {
		w.Header().Set("X-Jupyterhub-Version", version)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"version": version})
}

// visit hands on what somebody sends who may come in. A connection that stays open is asked about again and again.
func (g *Proxy) visit(w http.ResponseWriter, r *http.Request) {
	v, byURL := g.admit(w, r)
	if v == nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	p := passage{base: g.set.base, path: g.set.path, withToken: byURL}
	r = r.WithContext(context.WithValue(ctx, passageKey{}, p))
	if !upgrades(r) {
		// an answer may begin before the request is quite out: golang.org/issue/40747
		_ = http.NewResponseController(w).EnableFullDuplex()
		g.forward.ServeHTTP(w, r)
		return
	}
	line := g.traffic.begin()
	defer line.end()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		g.watch(ctx, v, cancel)
	}()
	g.forward.ServeHTTP(metered{w, line}, r)
	cancel()
	<-watched
}

// Report tells the Hub when something last went on, if nobody else does.
func (g *Proxy) Report(ctx context.Context, last time.Time) error {
	if g.set.activity == "" {
		return nil
	}
	return g.hub.report(ctx, last)
}

// Traffic tells of the connections that stay open.
func (g *Proxy) Traffic() Traffic { return g.traffic.now() }
