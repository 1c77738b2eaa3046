package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/hubapi/hub"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

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
		return &http.Cookie{Name: cookieOf("s"), Value: h.seal(plain, purpose)}
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
		"not sealed":         {func(string) string { return "code=code-of-alice&state=s" }, func(*harness) *http.Cookie { return &http.Cookie{Name: cookieOf("s"), Value: "e30"} }, 403},
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
			if beginsVisit(r) {
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
		if err != nil || to.Host != "" || to.Scheme != "" || !strings.HasPrefix(to.EscapedPath(), prefix) || web.Climbs(to.EscapedPath()) {
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
	if r := p.get(prefix); r.Code != http.StatusServiceUnavailable {
		t.Errorf("while the Hub is down: %d", r.Code)
	}
	refused = nil
	if r := p.get(prefix); r.Code != http.StatusOK {
		t.Errorf("when it is back: %d", r.Code)
	}
	refused = errs.New(errs.Forbidden, "the scope is gone")
	if r := p.get(prefix); r.Code != http.StatusForbidden {
		t.Errorf("without the scope: %d", r.Code)
	}
	refused = errs.New(errs.Unauthorized, "the token is gone")
	if r := p.do("POST", prefix+"sessions/s-alice/stop", url.Values{"token": {token}}); r.Code != http.StatusUnauthorized || h.engine.work["s-alice"].Phase != spawner.Running {
		t.Errorf("a form of one whom the Hub has forgotten: %d", r.Code)
	}
	refused = nil
	p.begin(prefix) // the visit does not go on
}

func TestLogout(t *testing.T) {
	h := startPages(t, newFake(), nil)
	p := h.visitor(t, "alice")
	token := formToken(t, p.get(prefix).Body.String())
	if r := p.get(prefix + "logout"); r.Code != http.StatusNotFound {
		t.Errorf("a link logs out: %d", r.Code)
	}
	r := p.do("POST", prefix+"logout", url.Values{"token": {token}})
	if r.Code != http.StatusSeeOther || r.Header().Get("Location") != prefix+"logged_out" {
		t.Errorf("%d %v", r.Code, r.Header())
	}
	if r := p.get(prefix + "logged_out"); r.Code != http.StatusOK || !strings.Contains(r.Body.String(), `href="/base/hub/logout"`) {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	p.begin(prefix)
}

// A script of a user's server may put any cookie into a visitor's browser, for any path: no filter of answers sees
// that.
func TestVisitCountsInItsOwnBrowserAlone(t *testing.T) {
	h := startPages(t, newFake(), func(c *Config) {
		c.Hubs[0].Identify = func(ctx context.Context, token string) (hub.Identity, error) {
			id, err := fakeIdentify(ctx, token)
			id.Session = "session-of-" + id.Name
			return id, err
		}
	})
	inHub := func(p *person, session string) *person {
		p.jar.SetCookies(&url.URL{Scheme: "http", Host: "hub.test", Path: "/"}, []*http.Cookie{{Name: "jupyterhub-session-id", Value: session, Path: "/"}})
		return p
	}
	visitIn := func(user string) *person {
		p := inHub(h.person(t), "session-of-"+user)
		p.login(prefix, user)
		return p
	}
	mallory, victim := visitIn("mallory"), visitIn("victim")
	if r := mallory.get(prefix); r.Code != http.StatusOK {
		t.Fatalf("mallory at home: %d %s", r.Code, r.Body)
	}
	hers := mallory.jar.Cookies(&url.URL{Scheme: "http", Host: "hub.test", Path: prefix})
	hers = slices.DeleteFunc(hers, func(c *http.Cookie) bool { return c.Name != web.VisitCookie })
	for name, p := range map[string]*person{"beside her own visit": victim, "without one": inHub(h.person(t), "session-of-victim")} {
		tossed := *hers[0]
		tossed.Path = prefix + "gpus" // sent before one with a shorter path
		p.jar.SetCookies(&url.URL{Scheme: "http", Host: "hub.test", Path: prefix + "gpus"}, []*http.Cookie{&tossed})
		if r := p.get(prefix + "gpus"); strings.Contains(r.Body.String(), "mallory") || p == victim && !strings.Contains(r.Body.String(), "victim") {
			t.Errorf("%s: %d %s", name, r.Code, r.Body)
		}
	}
	// With the Hub's cookie tossed too it is not to be said whose browser it is.
	victim.send = func(r *http.Request) { r.Header.Add("Cookie", "jupyterhub-session-id"+"=session-of-mallory") }
	if r := victim.get(prefix); r.Code != http.StatusForbidden || !strings.Contains(r.Body.String(), "delete the cookies") && !strings.Contains(r.Body.String(), "Delete the cookies") {
		t.Errorf("two sessions of the Hub: %d %s", r.Code, r.Body)
	}
}
