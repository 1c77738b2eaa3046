package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"slipway/hubapi/server/hubs"
	"slipway/internal/errs"
	"slipway/spawner"
)

// withApps starts a server whose sessions lead to apps, by id.
func withApps(t *testing.T, engine *fakeEngine, apps map[spawner.ID]http.Handler) *harness {
	t.Helper()
	addrs := map[spawner.ID]string{}
	for id, app := range apps {
		srv := httptest.NewServer(app)
		t.Cleanup(srv.Close)
		addrs[id] = srv.Listener.Addr().String()
	}
	code := httptest.NewServer(echo("code"))
	t.Cleanup(code.Close)
	return start(t, engine, func(cfg *Config) {
		cfg.DialCode = func(ctx context.Context, _ spawner.ID) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", code.Listener.Addr().String())
		}
		cfg.Dial = func(ctx context.Context, id spawner.ID) (net.Conn, error) {
			if addrs[id] == "" {
				return nil, errs.New(errs.Unavailable, "no link")
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", addrs[id])
		}
	})
}

// echo answers with what it was asked, byte by byte.
func echo(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s host=%s xff=%v proto=%v", name, r.RequestURI, r.Host, r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"])
	})
}

func TestProxyFindsTheSessionAndKeepsTheRequest(t *testing.T) {
	named := lab("s-named", "alice", "/user/alice/lab/")
	h := withApps(t, newFake(lab("s-alice", "alice", "/user/alice/"), named, lab("s-at", "has@", "/user/has@/"), lab("s-two", "Alice", "/user/Alice/")),
		map[spawner.ID]http.Handler{"s-alice": echo("default"), "s-named": echo("named"), "s-at": echo("at"), "s-two": echo("upper")})
	for _, tc := range []struct{ path, want string }{
		{"/user/alice/", "default /user/alice/"},
		{"/user/alice/lab/tree?x=1;y=%20&&z", "named /user/alice/lab/tree?x=1;y=%20&&z"},
		{"/user/alice/label", "default /user/alice/label"},
		{"/user/Alice/api", "upper /user/Alice/api"},
		{"/user/has%40/api", "at /user/has%40/api"},
		{"/user/has@/api", "at /user/has@/api"},
		{"/user/alice//files/a%2Fb%20c//", "default /user/alice//files/a%2Fb%20c//"},
		{"/user/alice/../bob/", "default /user/alice/../bob/"},
		{"/user/alice/%2e%2e/bob/", "default /user/alice/%2e%2e/bob/"},
	} {
		status, got := h.get(t, tc.path, nil)
		if want := tc.want + " host=hub.example xff=[10.0.0.1, 10.0.0.2] proto=[https]"; status != 200 || got != want {
			t.Errorf("%s: %d %q, want %q", tc.path, status, got, want)
		}
	}
}

// VS Code beside a notebook has a path, and the way back from its login.
func TestProxyFindsCodeBesideTheApp(t *testing.T) {
	code := lab("s-code", "carol", "/user/carol/")
	code.Kind = spawner.Code
	h := withApps(t, newFake(lab("s-alice", "alice", "/user/alice/"), lab("s-named", "alice", "/user/alice/vs/"), code),
		map[spawner.ID]http.Handler{"s-alice": echo("app"), "s-named": echo("named"), "s-code": echo("whole")})
	for path, want := range map[string]string{
		"/user/alice/vscode":                               "code",
		"/user/alice/vscode/":                              "code",
		"/user/alice/vscode/x?a":                           "code",
		"/user/alice/vs%63ode/x":                           "code",
		"/user/alice/oauth_callback?code=x&state=vscode-A": "code",
		"/user/alice/oauth_callback?code=x&state=A":        "app /user/alice/oauth_callback?code=x&state=A",
		"/user/alice/vscodes/":                             "app /user/alice/vscodes/",
		"/user/alice/lab/vscode/":                          "app /user/alice/lab/vscode/",
		"/user/alice/vs/vscode/":                           "code",
		"/user/alice/vs/code/":                             "named /user/alice/vs/code/",
		"/user/carol/vscode/":                              "whole /user/carol/vscode/",
		"/user/carol/oauth_callback?state=vscode-A":        "whole /user/carol/oauth_callback?state=vscode-A",
	} {
		if _, got := h.get(t, path, nil); !strings.HasPrefix(got, want+" ") {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// get sends a path as it stands, as the Hub's proxy would.
func (h *harness) get(t *testing.T, path string, change func(*http.Request)) (int, string) {
	t.Helper()
	req, _ := http.NewRequest("GET", h.front.URL, nil)
	rawPath, query, _ := strings.Cut(path, "?")
	decoded, err := url.PathUnescape(rawPath)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Path, req.URL.RawPath, req.URL.RawQuery = decoded, rawPath, query
	req.Host = "hub.example"
	req.Header.Set("X-Forwarded-For", "10.0.0.1, 10.0.0.2")
	req.Header.Set("X-Forwarded-Proto", "https")
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestProxyWithoutASession(t *testing.T) {
	booting := lab("s-boot", "bob", "/user/bob/")
	booting.Phase = spawner.Booting
	broken := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	h := withApps(t, newFake(booting, lab("s-cut", "eve", "/user/eve/"), lab("s-dead", "dan", "/user/dan/")),
		map[spawner.ID]http.Handler{"s-boot": echo("no"), "s-dead": broken})
	for _, tc := range []struct {
		path string
		want int
		text string
	}{
		{"/", 404, "No session runs"},
		{"/user/nobody/", 424, "No session runs"},
		{"/user/bo", 424, "No session runs"},
		{"/%61pi/v1/me", 404, "No session runs"},
		{"/user/bob/", 503, "booting"},
		{"/user/eve/", 503, "not connected"},
		{"/user/dan/", 502, "lost"},
	} {
		if status, got := h.get(t, tc.path, nil); status != tc.want || !strings.Contains(got, tc.text) || strings.Contains(got, "<") {
			t.Errorf("%s: %d %q, want %d and %q", tc.path, status, got, tc.want, tc.text)
		}
	}
	asBrowser := func(r *http.Request) { r.Header.Set("Accept", "text/html,*/*") }
	if status, got := h.get(t, "/user/bob/", asBrowser); status != 503 || !strings.Contains(got, "<h1>") {
		t.Errorf("a browser gets %d %q", status, got)
	}
	// Where there are pages, they say why.
	h.cfg.Hubs[0].PagesPrefix = "/services/slipway/"
	for path, led := range map[string]bool{"/user/nobody/": true, "/other/user/nobody/": false, "//user/nobody/": false} {
		if status, got := h.get(t, path, asBrowser); status != 404 || strings.Contains(got, `href="/services/slipway/"`) != led {
			t.Errorf("%s: a browser gets %d %q", path, status, got)
		}
	}
}

func TestProxyAddsTheMissingSlash(t *testing.T) {
	h := withApps(t, newFake(lab("s-at", "has@", "/user/has@/")), nil)
	req, _ := http.NewRequest("GET", h.front.URL+"/user/has%40?x=1", nil)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Location"); resp.StatusCode != 302 || got != "/user/has@/?x=1" {
		t.Errorf("%d to %q", resp.StatusCode, got)
	}
}

func TestProxyCarriesWebsockets(t *testing.T) {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, b) != nil {
				return
			}
		}
	})
	h := withApps(t, newFake(lab("s-alice", "alice", "/user/alice/")), map[spawner.ID]http.Handler{"s-alice": app})
	c, _, err := websocket.Dial(t.Context(), strings.Replace(h.front.URL, "http", "ws", 1)+"/user/alice/api/kernels/x/channels", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	for _, text := range []string{"a", strings.Repeat("long", 5000), ""} {
		if err := c.Write(t.Context(), websocket.MessageBinary, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != text {
			t.Fatalf("%d bytes came back as %d, %v", len(text), len(got), err)
		}
	}
}

func TestProxyStreamsAtOnce(t *testing.T) {
	next := make(chan struct{})
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			fmt.Fprint(w, "tick")
			_ = http.NewResponseController(w).Flush()
			<-next // the reader has it
		}
	})
	h := withApps(t, newFake(lab("s-alice", "alice", "/user/alice/")), map[spawner.ID]http.Handler{"s-alice": app})
	resp, err := http.Get(h.front.URL + "/user/alice/x")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 3 {
		b := make([]byte, 4)
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "tick" {
			t.Fatalf("%q, %v", b, err)
		}
		next <- struct{}{}
	}
}

// lingering is a connection whose writer sleeps a little too long behind the request's last byte, as on a busy machine.
type lingering struct {
	net.Conn
	last     string
	answered <-chan struct{}
	closed   chan struct{}
	once     sync.Once
}

func (c *lingering) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if strings.HasSuffix(string(b), c.last) {
		<-c.answered
	}
	return n, err
}

func (c *lingering) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// An answer whose beginning comes while the transport is not quite done with the request still comes whole.
func TestProxyAnswersWhileTheRequestGoesOut(t *testing.T) {
	answered, closed := make(chan struct{}), make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", "5")
		_ = http.NewResponseController(w).Flush()
		<-answered
		select {
		case <-closed: // what the proxy must not do
		case <-time.After(100 * time.Millisecond):
		}
		_, _ = io.WriteString(w, "whole")
	}))
	t.Cleanup(app.Close)
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/")), func(cfg *Config) {
		cfg.Dial = func(ctx context.Context, _ spawner.ID) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", app.Listener.Addr().String())
			return &lingering{Conn: c, last: "all of it", answered: answered, closed: closed}, err
		}
	})
	res, err := http.Post(h.front.URL+"/user/alice/run", "text/plain", strings.NewReader("this is all of it"))
	close(answered)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); string(got) != "whole" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestProxyForgetsADroppedLink: a pooled connection that has died must not fail the next request.
func TestProxyForgetsADroppedLink(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method) }))
	defer app.Close()
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/")), func(cfg *Config) {
		cfg.Dial = func(ctx context.Context, _ spawner.ID) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", app.Listener.Addr().String())
		}
	})
	for range 3 {
		if status, got := h.get(t, "/user/alice/x", nil); status != 200 || got != "GET" {
			t.Fatalf("%d %q", status, got)
		}
		app.CloseClientConnections()
	}
}

func FuzzProxyPath(f *testing.F) {
	engine := newFake(lab("s-alice", "alice", "/user/alice/"), lab("s-bob", "bob", "/user/bob/"))
	s := New(Config{Engine: engine, Hubs: []hubs.Hub{{Name: "main"}}, Logger: quiet(), Dial: func(_ context.Context, id spawner.ID) (net.Conn, error) {
		return nil, fmt.Errorf("dialed %s", id)
	}})
	front := s.Public()
	for _, p := range []string{"/user/alice/x", "/user/alice/../bob/", "//user/bob/", "/user/%61lice/", "/api/v1/../../user/bob/", "/user/alice%2f..%2fbob/"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.URL = u
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		mine := strings.HasPrefix(u.Path, "/user/alice/") || strings.HasPrefix(u.Path, "/user/bob/")
		if reached := w.Code == http.StatusServiceUnavailable; reached != mine && !strings.HasPrefix(u.EscapedPath(), "/readyz") {
			t.Fatalf("%q (decoded %q): %d %s", path, u.Path, w.Code, w.Body)
		}
	})
}
