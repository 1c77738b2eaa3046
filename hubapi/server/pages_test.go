package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/net/html"

	"slipway/hubapi/hub"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/spawner"
)

// elements gives the elements of a name in a page.
func elements(t *testing.T, page, name string) (found []*html.Node) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// formToken gives the token that a page's forms send.
func formToken(t *testing.T, page string) string {
	t.Helper()
	for _, n := range elements(t, page, "input") {
		if attribute(n, "name") == "token" {
			return attribute(n, "value")
		}
	}
	t.Fatalf("no form has a token: %s", page)
	return ""
}

// visitWith gives the visit whose forms send token.
func (h *harness) visitWith(t *testing.T, token string) visit {
	t.Helper()
	for _, v := range h.pages.visits.byKey {
		if v.form == token {
			return v
		}
	}
	t.Fatal("there is no such visit")
	return visit{}
}

// fakeOAuth is a Hub's login: a code is "code-of-<user>", and good once.
type fakeOAuth struct {
	host      string
	n         int
	exchanged []string
	verifiers map[string]bool
}

func (f *fakeOAuth) Begin(context.Context) (hub.Login, error) {
	f.n++
	state, verifier := fmt.Sprintf("state%d of %s", f.n, f.host), fmt.Sprintf("verifier%d", f.n)
	if f.verifiers == nil {
		f.verifiers = map[string]bool{}
	}
	f.verifiers[verifier] = true
	return hub.Login{URL: "http://" + f.host + "/hub/api/oauth2/authorize?" + url.Values{"state": {state}}.Encode(), State: state, Verifier: verifier}, nil
}

func (f *fakeOAuth) Exchange(_ context.Context, code, verifier string) (secret.Text, error) {
	user, ok := strings.CutPrefix(code, "code-of-")
	if !ok || slices.Contains(f.exchanged, code+verifier) || !f.verifiers[verifier] {
		return secret.Text{}, errs.New(errs.Unauthorized, "log in by the Hub: it does not take the code").With("log in again")
	}
	f.exchanged = append(f.exchanged, code+verifier)
	return secret.New(user + "-token"), nil
}

const prefix = "/base/services/slipway/"

// startPages serves the pages of two hubs: main's at prefix, and other's, which knows only users whose names begin with "o".
func startPages(t *testing.T, engine *fakeEngine, change func(*Config)) *harness {
	t.Helper()
	return start(t, engine, func(c *Config) {
		c.Hubs[0].PagesPrefix, c.Hubs[0].OAuth = prefix, &fakeOAuth{host: "hub.test"}
		c.Hubs = append(c.Hubs, Hub{
			Name: "other", APIURL: c.Hubs[0].APIURL, PagesPrefix: "/other/services/slipway/", OAuth: &fakeOAuth{host: "other.test"},
			Identify: func(ctx context.Context, token string) (hub.Identity, error) {
				if !strings.HasPrefix(token, "o") {
					return hub.Identity{}, errs.New(errs.Unauthorized, "unknown token")
				}
				return fakeIdentify(ctx, token)
			},
		})
		if change != nil {
			change(c)
		}
	})
}

// person is a browser with its cookies. It does not follow redirects by itself.
type person struct {
	t    *testing.T
	h    *harness
	jar  http.CookieJar
	send func(*http.Request) // changes requests before they go; nil: as they are
}

func (h *harness) person(t *testing.T) *person {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &person{t: t, h: h, jar: jar}
}

// visitor is a person who is logged in.
func (h *harness) visitor(t *testing.T, user string) *person {
	t.Helper()
	p := h.person(t)
	if r := p.login(prefix, user); r.Code != http.StatusFound || r.Header().Get("Location") != prefix {
		t.Fatalf("login of %s: %d %v %s", user, r.Code, r.Header(), r.Body)
	}
	return p
}

func (p *person) do(method, path string, form url.Values) *httptest.ResponseRecorder {
	p.t.Helper()
	r := httptest.NewRequest(method, "http://hub.test"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Accept", "text/html,*/*")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://hub.test")
	}
	for _, c := range p.jar.Cookies(r.URL) {
		r.AddCookie(c)
	}
	if p.send != nil {
		p.send(r)
	}
	w := httptest.NewRecorder()
	p.h.Public().ServeHTTP(w, r)
	p.jar.SetCookies(r.URL, w.Result().Cookies())
	return w
}

func (p *person) get(path string) *httptest.ResponseRecorder {
	p.t.Helper()
	return p.do("GET", path, nil)
}

// begin opens a page and gives the state with which the Hub is asked.
func (p *person) begin(path string) string {
	p.t.Helper()
	r := p.get(path)
	to, err := url.Parse(r.Header().Get("Location"))
	if r.Code != http.StatusFound || err != nil || to.Path != "/hub/api/oauth2/authorize" {
		p.t.Fatalf("%s leads to %d %v %s", path, r.Code, r.Header(), r.Body)
	}
	return to.Query().Get("state")
}

// login opens a page and comes back from the Hub as user.
func (p *person) login(path, user string) *httptest.ResponseRecorder {
	p.t.Helper()
	root := prefix
	if strings.HasPrefix(path, "/other/") {
		root = "/other/services/slipway/"
	}
	return p.get(root + "oauth_callback?" + url.Values{"state": {p.begin(path)}, "code": {"code-of-" + user}}.Encode())
}

func TestLoginLeadsBackToThePage(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), nil)
	for _, path := range []string{prefix, prefix + "sessions/s-alice", prefix + "?all=1", prefix + "sessions/s-alice?x=%2F%2Fevil.test"} {
		p := h.person(t)
		r := p.login(path, "alice")
		if r.Code != http.StatusFound || r.Header().Get("Location") != path {
			t.Errorf("%s leads to %d %v", path, r.Code, r.Header())
		}
		page := p.get(path)
		if page.Code != http.StatusOK || len(elements(t, page.Body.String(), "h1")) != 1 {
			t.Errorf("%s: %d %s", path, page.Code, page.Body)
		}
		for name, part := range map[string]string{
			"Content-Security-Policy": "frame-ancestors 'none'", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
		} {
			if !strings.Contains(page.Header().Get(name), part) {
				t.Errorf("%s is %q", name, page.Header().Get(name))
			}
		}
		if csp := page.Header().Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") || strings.Contains(csp, "script-src 'self'") {
			t.Errorf("the policy is %q", csp)
		}
	}
	if strings.Contains(h.logged.String(), "alice-token") || strings.Contains(h.logged.String(), "code-of") {
		t.Error("the log holds a secret")
	}
}

func TestCookies(t *testing.T) {
	h := startPages(t, newFake(), nil)
	for proto, secure := range map[string]bool{"": false, "http": false, "https": true, "https,http": true} {
		p := h.person(t)
		p.send = func(r *http.Request) {
			if proto != "" {
				r.Header.Set("X-Forwarded-Proto", proto)
			}
			p.jar.SetCookies(r.URL, r.Cookies())
		}
		begun := p.get(prefix)
		cookies := begun.Result().Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%v", begun.Header())
		}
		c := cookies[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != prefix || c.Secure != secure || c.MaxAge <= 0 {
			t.Errorf("under %q: %+v", proto, c)
		}
		if strings.Contains(c.Value, "verifier") {
			t.Error("the cookie shows what is in it")
		}
	}
}

func TestCallbackRefuses(t *testing.T) {
	sealed := func(h *harness, purpose string, until time.Duration) *http.Cookie {
		plain := fmt.Sprintf(`{"state":"s","verifier":"v","next":%q,"until":%q}`, prefix, time.Now().Add(until).Format(time.RFC3339))
		return &http.Cookie{Name: attemptCookie("s"), Value: h.pages.seal([]byte(plain), purpose)}
	}
	for name, tc := range map[string]struct {
		query  func(state string) string
		cookie func(h *harness) *http.Cookie
		status int
	}{
		"wrong state":        {func(string) string { return "state=other&code=code-of-alice" }, nil, 403},
		"no state":           {func(string) string { return "code=code-of-alice" }, nil, 403},
		"no code":            {func(s string) string { return "state=" + url.QueryEscape(s) }, nil, 403},
		"not agreed":         {func(s string) string { return "error=access_denied&state=" + url.QueryEscape(s) }, nil, 403},
		"a code of nobody":   {func(s string) string { return "code=stolen&state=" + url.QueryEscape(s) }, nil, 401},
		"a Hub that is down": {func(s string) string { return "code=code-of-down&state=" + url.QueryEscape(s) }, nil, 503},
		"too late":           {func(string) string { return "code=code-of-alice&state=s" }, func(h *harness) *http.Cookie { return sealed(h, "login main", -time.Second) }, 403},
		"another hub's":      {func(string) string { return "code=code-of-alice&state=s" }, func(h *harness) *http.Cookie { return sealed(h, "login other", time.Minute) }, 403},
		"not sealed":         {func(string) string { return "code=code-of-alice&state=s" }, func(*harness) *http.Cookie { return &http.Cookie{Name: attemptCookie("s"), Value: "e30"} }, 403},
	} {
		t.Run(name, func(t *testing.T) {
			h := startPages(t, newFake(), nil)
			p := h.person(t)
			state := p.begin(prefix)
			if tc.cookie != nil {
				p.send = func(r *http.Request) { r.AddCookie(tc.cookie(h)) }
			}
			r := p.get(prefix + "oauth_callback?" + tc.query(state))
			links := elements(t, r.Body.String(), "a")
			if r.Code != tc.status || len(links) == 0 || attribute(links[len(links)-1], "href") != prefix {
				t.Errorf("%d %s", r.Code, r.Body)
			}
			if len(h.pages.visits.byKey) != 0 {
				t.Error("a visit has begun")
			}
		})
	}
}

func TestCodeIsGoodOnce(t *testing.T) {
	h := startPages(t, newFake(), nil)
	p := h.person(t)
	state := p.begin(prefix)
	back := prefix + "oauth_callback?" + url.Values{"state": {state}, "code": {"code-of-alice"}}.Encode()
	u, _ := url.Parse("http://hub.test" + prefix)
	kept := p.jar.Cookies(u)
	if r := p.get(back); r.Code != http.StatusFound {
		t.Fatalf("%d %s", r.Code, r.Body)
	}
	if r := p.get(back); r.Code != http.StatusForbidden {
		t.Errorf("the second time: %d %v", r.Code, r.Header())
	}
	thief := h.person(t) // who has got hold of the address
	if r := thief.get(back); r.Code != http.StatusForbidden {
		t.Errorf("without the cookie: %d", r.Code)
	}
	thief.jar.SetCookies(u, kept) // and of the cookie
	if r := thief.get(back); r.Code != http.StatusUnauthorized {
		t.Errorf("with the cookie: %d", r.Code)
	}
}

func TestNoRedirectLeadsElsewhere(t *testing.T) {
	h := startPages(t, newFake(), nil)
	for _, path := range []string{
		prefix + "sessions/..", prefix + "sessions/%2e%2e", prefix + "sessions/x?next=https://evil.test/", prefix + "?" + strings.Repeat("x", 2000),
		prefix + "sessions/%5C%5Cevil.test", "/base/services/slipway", prefix + "jobs/%0d%0aLocation:%20x",
	} {
		p := h.person(t)
		r := p.get(path)
		if r.Code == http.StatusFound && r.Header().Get("Location") == prefix {
			continue // the lacking slash
		}
		if r.Code != http.StatusFound {
			t.Errorf("%s: %d", path, r.Code)
			continue
		}
		asked, _ := url.Parse(r.Header().Get("Location"))
		back := p.get(prefix + "oauth_callback?" + url.Values{"state": {asked.Query().Get("state")}, "code": {"code-of-alice"}}.Encode())
		to, err := url.Parse(back.Header().Get("Location"))
		if err != nil || to.Host != "" || to.Scheme != "" || !strings.HasPrefix(to.EscapedPath(), prefix) || climbs(to.EscapedPath()) {
			t.Errorf("%s comes back to %q", path, back.Header().Get("Location"))
		}
	}
}

func TestVisitIsOfOneHub(t *testing.T) {
	h := startPages(t, newFake(), nil)
	p := h.visitor(t, "olga") // whom both hubs know
	u, _ := url.Parse("http://hub.test" + prefix)
	stolen := p.jar.Cookies(u)
	p.send = func(r *http.Request) {
		for _, c := range stolen {
			r.AddCookie(c)
		}
	}
	p.begin("/other/services/slipway/")
	p.send = nil
	if r := p.login("/other/services/slipway/", "alice"); r.Code != http.StatusUnauthorized {
		t.Errorf("a user whom the other hub does not know: %d", r.Code)
	}
	if r := h.person(t).login("/other/services/slipway/", "olga"); r.Code != http.StatusFound {
		t.Errorf("a user of the other hub: %d", r.Code)
	}
}

func TestVisitEnds(t *testing.T) {
	var refused error
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), func(c *Config) {
		known := c.Hubs[0].Identify
		c.Hubs[0].Identify = func(ctx context.Context, token string) (hub.Identity, error) {
			if refused != nil {
				return hub.Identity{}, refused
			}
			return known(ctx, token)
		}
	})
	p := h.visitor(t, "alice")
	token := formToken(t, p.get(prefix).Body.String())
	refused = errs.New(errs.Unavailable, "the Hub does not answer")
	if r := p.get(prefix); r.Code != http.StatusServiceUnavailable || len(h.pages.visits.byKey) != 1 {
		t.Errorf("while the Hub is down: %d, %d visits", r.Code, len(h.pages.visits.byKey))
	}
	refused = errs.New(errs.Forbidden, "the scope is gone")
	if r := p.get(prefix); r.Code != http.StatusForbidden {
		t.Errorf("without the scope: %d", r.Code)
	}
	refused = errs.New(errs.Unauthorized, "the token is gone")
	if r := p.do("POST", prefix+"sessions/s-alice/stop", url.Values{"token": {token}}); r.Code != http.StatusUnauthorized || h.engine.work["s-alice"].Phase != spawner.Running {
		t.Errorf("a form of one whom the Hub has forgotten: %d", r.Code)
	}
	p.begin(prefix)
	if len(h.pages.visits.byKey) != 0 {
		t.Error("the visit goes on")
	}
	refused = nil
	p = h.visitor(t, "alice")
	for key, v := range h.pages.visits.byKey {
		v.until = time.Now()
		h.pages.visits.byKey[key] = v
	}
	p.begin(prefix)
}

func TestLogout(t *testing.T) {
	h := startPages(t, newFake(), nil)
	p := h.visitor(t, "alice")
	token := formToken(t, p.get(prefix).Body.String())
	if r := p.get(prefix + "logout"); r.Code != http.StatusNotFound || len(h.pages.visits.byKey) != 1 {
		t.Errorf("a link logs out: %d", r.Code)
	}
	r := p.do("POST", prefix+"logout", url.Values{"token": {token}})
	if r.Code != http.StatusSeeOther || r.Header().Get("Location") != prefix+"logged_out" || len(h.pages.visits.byKey) != 0 {
		t.Errorf("%d %v", r.Code, r.Header())
	}
	if r := p.get(prefix + "logged_out"); r.Code != http.StatusOK || !strings.Contains(r.Body.String(), `href="/base/hub/logout"`) {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	p.begin(prefix)
}

func TestForms(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/"), lab("s-two", "alice", "/base/user/alice/two/"), job("j-alice", "alice")), nil)
	p := h.visitor(t, "alice")
	token := formToken(t, p.get(prefix).Body.String())
	kept := func() bool { return !h.engine.work["s-alice"].KeepUntil.IsZero() }
	for _, tc := range []struct {
		path string
		form url.Values
		to   string
		done func() bool
	}{
		{"sessions/s-alice/keep", url.Values{"for": {"4h0m0s"}, "back": {"list"}}, "", kept},
		{"sessions/s-alice/stop", nil, "sessions/s-alice", func() bool { return h.engine.work["s-alice"].Phase == spawner.Stopped }},
		{"sessions/s-alice/discard", nil, "", func() bool { _, ok := h.engine.work["s-alice"]; return !ok }},
		{"jobs/j-alice/stop", url.Values{"back": {"all"}}, "?all=1", func() bool { return h.engine.work["j-alice"].Want == spawner.WantStopped }},
		{"sessions/s-two/stop", url.Values{"back": {"https://evil.test/"}}, "sessions/s-two", func() bool { return true }},
	} {
		form := url.Values{"token": {token}}
		for name, value := range tc.form {
			form[name] = value
		}
		r := p.do("POST", prefix+tc.path, form)
		if r.Code != http.StatusSeeOther || r.Header().Get("Location") != prefix+tc.to || !tc.done() {
			t.Errorf("%s: %d %v %s", tc.path, r.Code, r.Header(), r.Body)
		}
	}
}

func TestFormsRefuse(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/"), lab("s-bob", "bob", "/base/user/bob/"), job("j-alice", "alice")), nil)
	p := h.visitor(t, "alice")
	token := formToken(t, p.get(prefix).Body.String())
	others := formToken(t, h.visitor(t, "bob").get(prefix).Body.String())
	stop := "sessions/s-alice/stop"
	for name, tc := range map[string]struct {
		method, path string
		form         url.Values
		send         func(*http.Request)
		status       int
	}{
		"another site's":       {"POST", stop, url.Values{"token": {token}}, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"a sister site's":      {"POST", stop, url.Values{"token": {token}}, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		"another origin's":     {"POST", stop, url.Values{"token": {token}}, func(r *http.Request) { r.Header.Set("Origin", "https://evil.test") }, 403},
		"no token":             {"POST", stop, url.Values{}, nil, 403},
		"an empty token":       {"POST", stop, url.Values{"token": {""}}, nil, 403},
		"another's token":      {"POST", stop, url.Values{"token": {others}}, nil, 403},
		"the token in a query": {"POST", stop + "?token=" + token, url.Values{}, nil, 403},
		"a link":               {"GET", stop, nil, nil, 404},
		"too large":            {"POST", stop, url.Values{"token": {token}, "x": {strings.Repeat("x", formLimit)}}, nil, 422},
		"another's session":    {"POST", "sessions/s-bob/stop", url.Values{"token": {token}}, nil, 404},
		"another's changes":    {"POST", "sessions/s-bob/discard", url.Values{"token": {token}}, nil, 404},
		"a job as a session":   {"POST", "sessions/j-alice/stop", url.Values{"token": {token}}, nil, 404},
		"no time":              {"POST", "sessions/s-alice/keep", url.Values{"token": {token}, "for": {"long"}}, nil, 422},
		"no visit":             {"POST", stop, url.Values{"token": {token}}, func(r *http.Request) { r.Header.Del("Cookie") }, 401},
	} {
		p.send = tc.send
		r := p.do(tc.method, prefix+tc.path, tc.form)
		if r.Code != tc.status || len(elements(t, r.Body.String(), "h1")) != 1 {
			t.Errorf("%s: %d %s", name, r.Code, r.Body)
		}
	}
	for id, w := range h.engine.work {
		if w.Phase != spawner.Running {
			t.Errorf("%s is %s", id, w.Phase)
		}
	}
}

func TestPagesAreNotForScriptsOfOthers(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), nil)
	p := h.visitor(t, "alice")
	token := formToken(t, p.get(prefix).Body.String())
	v := h.visitWith(t, token)
	fetched := func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Mode", "cors")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	p.send = fetched
	if r := p.get(prefix); r.Code != http.StatusForbidden || strings.Contains(r.Body.String(), token) {
		t.Errorf("a script of a user's server reads the page: %d", r.Code)
	}
	p.send = func(r *http.Request) { fetched(r); r.Header.Set("X-Slipway-Page", token) }
	if r := p.get(prefix); r.Code != http.StatusOK {
		t.Errorf("the page's own script: %d", r.Code)
	}
	p.send = fetched
	for query, status := range map[string]int{"": 403, "?key=" + token: 403, "?key=" + v.stream + "&after=x": 422} {
		if r := p.get(prefix + "sessions/s-alice/events" + query); r.Code != status {
			t.Errorf("events%s: %d", query, r.Code)
		}
	}
	p.jar, _ = cookiejar.New(nil)
	if r := p.get(prefix); r.Code != http.StatusUnauthorized {
		t.Errorf("a script without a visit is sent to %d %v", r.Code, r.Header())
	}
}

func TestPageEvents(t *testing.T) {
	engine := newFake(lab("s-alice", "alice", "/base/user/alice/"))
	engine.steps = []spawner.Event{{Seq: 5, Launch: "l1", Percent: 10, Message: "<b>one"}, {Seq: 6, Launch: "l1", Percent: 100, Message: "two", Final: true}}
	h := startPages(t, engine, nil)
	p := h.visitor(t, "alice")
	page := p.get(prefix + "sessions/s-alice").Body.String()
	v := h.visitWith(t, formToken(t, page))
	if items := elements(t, page, "li"); len(items) != 2 {
		t.Errorf("the page has %d steps", len(items))
	}
	r := p.get(prefix + "sessions/s-alice/events?after=5&key=" + v.stream)
	if r.Code != http.StatusOK || strings.Contains(r.Body.String(), "one") || !strings.Contains(r.Body.String(), `"message":"two"`) {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}

// TestNoPageGivesAnothersThings asks, as bob, for every page of alice's things.
func TestNoPageGivesAnothersThings(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/"), job("j-alice", "alice")), nil)
	p := h.visitor(t, "bob")
	token := formToken(t, p.get(prefix).Body.String())
	v := h.visitWith(t, token)
	err := chi.Walk(h.pages.router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		path := strings.TrimPrefix(route, "/pages/")
		of := strings.NewReplacer("sessions/{id}", "sessions/s-alice", "jobs/{id}", "jobs/j-alice").Replace(path)
		if path == "logout" {
			return nil
		}
		var form url.Values
		if method == "POST" {
			form = url.Values{"token": {token}, "for": {"1h"}}
		}
		r := p.do(method, prefix+of+"?all=1&key="+v.stream, form)
		if strings.Contains(path, "{id}") && r.Code != http.StatusNotFound || strings.Contains(r.Body.String(), "s-alice<") || strings.Contains(r.Body.String(), "/base/user/alice") {
			t.Errorf("%s %s: %d %s", method, of, r.Code, r.Body)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if h.engine.work["s-alice"].Phase != spawner.Running || h.engine.work["j-alice"].Phase != spawner.Running {
		t.Error("something of hers was changed")
	}
}

func TestAdministratorSeesAll(t *testing.T) {
	elsewhere := lab("s-else", "alice", "/other/user/alice/")
	elsewhere.Hub = "other"
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/"), lab("s-root", "root", "/base/user/root/"), elsewhere), nil)
	p := h.visitor(t, "root")
	shown := func(path string) (ids []string) {
		for _, a := range elements(t, p.get(path).Body.String(), "a") {
			if id, ok := strings.CutPrefix(attribute(a, "id"), "page-"); ok {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		return ids
	}
	if got := shown(prefix); !slices.Equal(got, []string{"s-root"}) {
		t.Errorf("her own: %q", got)
	}
	if got := shown(prefix + "?all=1"); !slices.Equal(got, []string{"s-alice", "s-root"}) {
		t.Errorf("all: %q", got)
	}
	p = h.visitor(t, "bob")
	if got := shown(prefix + "?all=1"); len(got) != 0 {
		t.Errorf("all, for bob: %q", got)
	}
}

func TestNamesCannotBreakOut(t *testing.T) {
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	w := lab("s-evil", spawner.User(evil), "/base/user/x/")
	w.Name, w.Phase = evil, spawner.Stopped
	w.Spec.Profile, w.Spec.Image = evil, evil
	w.Outcome = &spawner.Outcome{Failed: true, Reason: evil, Remedy: evil, Tail: evil}
	engine := newFake(w)
	engine.steps = []spawner.Event{{Seq: 1, Launch: "l1", Message: evil, Final: true}}
	h := startPages(t, engine, func(c *Config) {
		c.Hubs[0].Identify = func(context.Context, string) (hub.Identity, error) { return hub.Identity{Name: evil}, nil }
	})
	p := h.visitor(t, "evil")
	for _, path := range []string{"", "sessions/s-evil", "sessions/s-evil/discard", "sessions/%3Cimg%20src=x%3E", "nothing/%3Cimg%3E", "oauth_callback?error=%3Cimg%3E"} {
		page := p.get(prefix + path).Body.String()
		for _, script := range elements(t, page, "script") {
			if attribute(script, "nonce") == "" || strings.Contains(script.FirstChild.Data, "alert(1)") {
				t.Errorf("%s has a script of another's: %s", path, script.FirstChild.Data)
			}
		}
		if n := len(elements(t, page, "img")); n != 0 || len(elements(t, page, "h1")) != 1 {
			t.Errorf("%s has %d images: %s", path, n, page)
		}
	}
}

func TestBasicCredentialsPassThePages(t *testing.T) {
	h := startPages(t, newFake(), nil)
	p := h.person(t)
	p.send = func(r *http.Request) { r.SetBasicAuth("hub1", "x") }
	if r := p.get(prefix); r.Code == http.StatusFound {
		t.Errorf("a hub is sent to log in: %v", r.Header())
	}
	p.send = nil
	if r := p.get("/base/services/slipwayx/"); r.Code == http.StatusFound || r.Code == http.StatusOK {
		t.Errorf("another service's path: %d", r.Code)
	}
}

func TestVisitsAreBounded(t *testing.T) {
	v := newVisits()
	for range visitLimit + 1 {
		v.add("main", secret.New("x"))
	}
	if len(v.byKey) > visitLimit {
		t.Errorf("%d visits", len(v.byKey))
	}
}
