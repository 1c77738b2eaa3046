package server

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi/hub"
	"slipway/spawner"
)

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
		"too large":            {"POST", stop, url.Values{"token": {token}, "x": {strings.Repeat("x", 64<<10)}}, nil, 422},
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
	page := p.get(prefix).Body.String()
	token, stream := formToken(t, page), streamKey(t, page)
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
	for query, status := range map[string]int{"": 403, "?key=" + token: 403, "?key=" + stream + "&after=x": 422} {
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
	stream := streamKey(t, page)
	if items := elements(t, page, "li"); len(items) != 2 {
		t.Errorf("the page has %d steps", len(items))
	}
	r := p.get(prefix + "sessions/s-alice/events?after=5&key=" + stream)
	if r.Code != http.StatusOK || strings.Contains(r.Body.String(), "one") || !strings.Contains(r.Body.String(), `"message":"two"`) {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}

// TestNoPageGivesAnothersThings asks, as bob, for every page of alice's things.
func TestNoPageGivesAnothersThings(t *testing.T) {
	of := job("j-point", "alice")
	of.Scan = "scan-alice"
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/"), job("j-alice", "alice"), of), newCredentials("main:alice").with)
	p := h.visitor(t, "bob")
	page := p.get(prefix).Body.String()
	token, stream := formToken(t, page), streamKey(t, page)
	err := chi.Walk(h.pages.Routes(), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		path := strings.TrimPrefix(route, "/pages/")
		of := strings.NewReplacer("sessions/{id}", "sessions/s-alice", "jobs/{id}", "jobs/j-alice", "scans/{id}", "scans/scan-alice", "{verb}", "cancel", "{ref}", url.PathEscape(theDigest),
			"logins/{id}", "logins/grant-of-main:alice", "{name}", "wlcg").Replace(path)
		if path == "logout" || path == "credentials/{name}/login" { // at an issuer, as herself
			return nil
		}
		var form url.Values
		if method == "POST" {
			form = url.Values{"token": {token}, "for": {"1h"}, "with": {"public"}, "name": {"bobs"}}
		}
		r := p.do(method, prefix+of+"?all=1&from=x&key="+stream, form)
		if strings.Contains(path, "{") && r.Code != http.StatusNotFound || strings.Contains(r.Body.String(), "s-alice<") || strings.Contains(r.Body.String(), "j-point") || strings.Contains(r.Body.String(), "/base/user/alice") {
			t.Errorf("%s %s: %d %s", method, of, r.Code, r.Body)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if h.engine.work["s-alice"].Phase != spawner.Running || h.engine.work["j-alice"].Phase != spawner.Running || h.engine.work["j-point"].Phase != spawner.Running {
		t.Error("something of hers was changed")
	}
}

func TestAdministratorSeesAll(t *testing.T) {
	elsewhere := lab("s-else", "alice", "/other/user/alice/")
	elsewhere.Hub = "other"
	standby := lab("s-standby", "root", "")
	standby.Kind, standby.Phase, standby.Standby = spawner.Kernel, spawner.Starting, "python"
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/"), lab("s-root", "root", "/base/user/root/"), standby, elsewhere), nil)
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
	if got := shown(prefix + "?all=1"); !slices.Equal(got, []string{"s-alice", "s-root", "s-standby"}) {
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
