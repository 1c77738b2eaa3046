package authproxy

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// fakeHub is as much of a Hub as a gate needs. Who is logged in at it is who a code is for.
type fakeHub struct {
	*httptest.Server
	mu     sync.Mutex
	who    string
	codes  map[string][2]string // user and challenge
	tokens map[string]string    // user
	scopes map[string][]string
	down   bool
	asked  int // how often who a token belongs to
}

func newFakeHub(t *testing.T) *fakeHub {
	h := &fakeHub{who: "alice", codes: map[string][2]string{}, tokens: map[string]string{"alices": "alice", "bobs": "bob"}, scopes: map[string][]string{
		"alice": {"read:users!user=alice", "access:servers!server=alice/"}, "bob": {"access:servers!server=bob/"}, "root": {"access:servers"},
	}}
	m := http.NewServeMux()
	m.HandleFunc("GET /hub/api/oauth2/authorize", h.authorize)
	m.HandleFunc("POST /hub/api/oauth2/token", h.token)
	m.HandleFunc("GET /hub/api/user", h.user)
	m.HandleFunc("GET /hub/api/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":"6.1.1"}`) })
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		m.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *fakeHub) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *fakeHub) questions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

func (h *fakeHub) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != "jupyterhub-user-alice" || q.Get("response_type") != "code" || q.Get("redirect_uri") != "/user/alice/oauth_callback" {
		http.Error(w, "who asks?", http.StatusBadRequest)
		return
	}
	code := fmt.Sprint("code", len(h.codes))
	h.codes[code] = [2]string{h.who, q.Get("code_challenge")}
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	w.Header().Set("Location", q.Get("redirect_uri")+"?"+back.Encode())
	w.WriteHeader(http.StatusFound)
}

func (h *fakeHub) token(w http.ResponseWriter, r *http.Request) {
	code, known := h.codes[r.FormValue("code")]
	delete(h.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !known || r.FormValue("client_secret") != "its-own" || base64.RawURLEncoding.EncodeToString(sum[:]) != code[1] {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	token := fmt.Sprint("token", len(h.tokens))
	h.tokens[token] = code[0]
	_ = json.NewEncoder(w).Encode(map[string]string{"access_token": token})
}

func (h *fakeHub) user(w http.ResponseWriter, r *http.Request) {
	h.asked++
	name, known := h.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "token ")]
	if !known {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "scopes": h.scopes[name]})
}

// site is a gate, its Hub and its program.
type site struct {
	hub  *fakeHub
	gate *Proxy
	app  func(http.ResponseWriter, *http.Request)
	web  *httptest.Server
}

func environment(hub string) map[string]string {
	return map[string]string{
		"JUPYTERHUB_SERVICE_PREFIX": "/user/alice/", "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-alice", "JUPYTERHUB_API_TOKEN": "its-own",
		"JUPYTERHUB_OAUTH_CALLBACK_URL": "/user/alice/oauth_callback", "JUPYTERHUB_BASE_URL": "/", "JUPYTERHUB_API_URL": hub + "/hub/api",
		"JUPYTERHUB_OAUTH_ACCESS_SCOPES": `["access:servers!server=alice/", "access:servers!user=alice"]`,
	}
}

func newSite(t *testing.T, below string) *site {
	t.Helper()
	s := &site{hub: newFakeHub(t), app: func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "the program: ", r.URL.RequestURI()) }}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.app(w, r) }))
	t.Cleanup(app.Close)
	env := environment(s.hub.URL)
	to := func(server *httptest.Server) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
		}
	}
	var err error
	s.gate, err = New(Config{
		Env: func(name string) string { return env[name] }, Below: below, Mark: "m-", Title: "VS Code", Hub: to(s.hub.Server), App: to(app), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	m := http.NewServeMux()
	m.Handle("/user/alice/", s.gate)
	m.HandleFunc("/hub/", func(w http.ResponseWriter, r *http.Request) { s.hub.Config.Handler.ServeHTTP(w, r) })
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/hub/") {
			m.ServeHTTP(w, r)
			return
		}
		s.gate.ServeHTTP(w, r) // without a mux, which would clean paths
	}))
	t.Cleanup(s.web.Close)
	return s
}

// browser keeps cookies. It follows redirects unless told not to.
type browser struct {
	t    *testing.T
	site *site
	*http.Client
}

func (s *site) browser(t *testing.T) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, s, &http.Client{Jar: jar}}
}

// stay makes it follow no redirects.
func (b *browser) stay() *browser {
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return b
}

type reply struct {
	status int
	text   string
	header http.Header
	url    string
}

// get asks for a page, with more headers.
func (b *browser) get(path string, headers ...string) reply {
	return b.send(http.MethodGet, path, headers...)
}

func (b *browser) send(method, path string, headers ...string) reply {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.site.web.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := b.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	var text strings.Builder
	_, _ = fmt.Fprint(&text, readAll(res))
	return reply{res.StatusCode, text.String(), res.Header, res.Request.URL.RequestURI()}
}

// state returns the name of the login that a redirect to the Hub begins.
func (r reply) state() string {
	u, _ := url.Parse(r.header.Get("Location"))
	return u.Query().Get("state")
}
