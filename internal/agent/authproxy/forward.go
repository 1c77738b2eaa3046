package authproxy

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
	"time"
)

type passageKey struct{}

// passage says how a request is to be handed on.
type passage struct {
	base, path string // the gate's path, decoded and as it stands in addresses
	withToken  bool   // a token stands in the address
}

// errApp marks an error of reaching the program, when nothing has been sent yet.
var errApp = errors.New("the program cannot be reached")

func (g *Proxy) newForward() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: rewrite, FlushInterval: -1, ErrorHandler: g.failed,
		ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, err := g.cfg.App(ctx)
				if err != nil {
					return nil, errors.Join(errApp, err)
				}
				return c, nil
			},
			// Servers on Node.js close a connection that is idle for 5 s, and what is sent at that moment is lost.
			MaxIdleConnsPerHost: 32, IdleConnTimeout: 3 * time.Second, DisableCompression: true,
			MaxResponseHeaderBytes: 1 << 20,
		},
	}
}

// rewrite takes the gate's path off, and what is no business of the program's. Host stays: VS Code's server compares it
// with the origin of a websocket.
func rewrite(p *httputil.ProxyRequest) {
	how, _ := p.In.Context().Value(passageKey{}).(passage)
	out := p.Out
	out.URL.Scheme, out.URL.Host, out.Host = "http", "app", p.In.Host
	out.URL.Path, out.URL.RawPath = "/"+strings.TrimPrefix(p.In.URL.Path, how.base), ""
	if raw, ok := strings.CutPrefix(p.In.URL.EscapedPath(), how.path); ok {
		out.URL.RawPath = "/" + raw
	}
	if out.URL.RawQuery = p.In.URL.RawQuery; how.withToken {
		out.URL.RawQuery = without(out.URL.RawQuery, "token")
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := p.In.Header[name]; ok {
			out.Header[name] = v
		}
	}
	out.Header.Del("Authorization")
	keepCookies(out.Header)
}

// without takes a parameter out of a query and leaves the others as they stand.
func without(query, name string) string {
	parts := slices.DeleteFunc(strings.Split(query, "&"), func(part string) bool {
		key, _, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(key)
		return err == nil && plain == name
	})
	return strings.Join(parts, "&")
}

// keepCookies leaves those of VS Code's own. All others are the Hub's, of other servers, or the gate's: each lets
// somebody in somewhere.
func keepCookies(h http.Header) {
	var keep []string
	for _, line := range h["Cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			part = strings.TrimSpace(part)
			if name, _, _ := strings.Cut(part, "="); strings.HasPrefix(name, "vscode") ||
				strings.HasPrefix(name, "code-server") {
				keep = append(keep, part)
			}
		}
	}
	if h.Del("Cookie"); len(keep) > 0 {
		h.Set("Cookie", strings.Join(keep, "; "))
	}
}

// failed answers in place of a program that cannot.
func (g *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the visitor has gone
	}
	g.log.Debug("the gate's program", "error", err)
	if errors.Is(err, errApp) {
		g.trouble(w, r, err)
		return
	}
	tell(w, r, notice{status: http.StatusBadGateway, title: g.cfg.Title + " has not answered",
		text: "The connection to " + g.cfg.Title + " was lost before it answered.", next: "Try again."})
}
