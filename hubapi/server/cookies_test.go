package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi/server/web"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// mallory is a session that answers /user/mallory/set?c=... with the cookies that it is asked for.
func mallory(t *testing.T, env map[string]string) *harness {
	w := lab("s-mallory", "mallory", "/user/mallory/")
	w.Spec.Env = env
	h := withApps(t, newFake(w, lab("s-m", "m al", "/user/m al/")), map[spawner.ID]http.Handler{"s-mallory": setter, "s-m": setter})
	h.cfg.Hubs[0].PagesPrefix, h.cfg.Hubs[0].OAuth = "/services/slipway/", &fakeOAuth{host: "hub.test"}
	return h
}

var setter = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header()["Set-Cookie"] = r.URL.Query()["c"]
	w.Header().Set("Set-Cookie2", "old=1")
	if to := r.URL.Query().Get("to"); to != "" {
		http.Redirect(w, r, to, http.StatusFound)
	}
})

// setBy returns the Set-Cookie lines that come out of the session proxy.
func (h *harness) setBy(path string, lines ...string) []string {
	r := httptest.NewRequest("GET", path+"?"+url.Values{"c": lines}.Encode(), nil)
	w := httptest.NewRecorder()
	h.Public().ServeHTTP(w, r)
	if w.Result().Header.Get("Set-Cookie2") != "" {
		return []string{"Set-Cookie2"}
	}
	return w.Result().Header["Set-Cookie"]
}

func TestCookiesOfASessionStayBelowItsPrefix(t *testing.T) {
	h := mallory(t, nil)
	long := "/user/mallory/" + strings.Repeat("x", 1024)
	for _, tc := range []struct{ at, line, want string }{
		{"lab", "_xsrf=a; expires=Mon, 1 Jan 2035 00:00:00 GMT; Path=/user/mallory/", "_xsrf=a; expires=Mon, 1 Jan 2035 00:00:00 GMT; Path=/user/mallory/"},
		{"lab", `x="q\054 uoted"; HttpOnly; SameSite=None; Path=/user/mallory`, `x="q\054 uoted"; HttpOnly; SameSite=None; Path=/user/mallory`},
		{"lab", "x=1", "x=1; Path=/user/mallory"},
		{"a/b/c", "x=1; Secure", "x=1; Secure; Path=/user/mallory/a/b"},
		{"a/b", "x=1; Path=relative", "x=1; Path=/user/mallory/a"},
		{"a/b", "x=1; Path=/; path = /user/mallory/z", "x=1; Path=/user/mallory/z"},
		{"a", "x=1; Domain=; Path=/user/mallory/", "x=1; Path=/user/mallory/"},
		{"a", "x=1; Path=/user/m%61llory/", "x=1; Path=/user/m%61llory/"},
		{"a", "slipway-visit=hers; Path=/services/slipway/", ""},
		{"a", "slipway-visit=hers; Path=/services/slipway/ssh", ""},
		{"a", "jupyterhub-hub-login=hers; Path=/hub/", ""},
		{"a", "jupyterhub-session-id=hers; Path=/", ""},
		{"a", "jupyterhub-user-bob=hers; Path=/user/bob/", ""},
		{"a", "_xsrf=hers; Path=/hub/", ""},
		{"a", "x=1; Path=/user/mallory/; PATH=/", ""},
		{"a", "x=1; Path=/user/mallory2/", ""},
		{"a", "x=1; Path=/user", ""},
		{"a", "x=1; Path=/user/mallory/../bob/", ""},
		{"a", "x=1; Path=/user/mallory/%2e%2e/bob/", ""},
		{"a", `x=1; Path=/user/mallory/..\bob/`, ""},
		{"a", "x=1; Path=" + long, ""},
		{"a", "x=1; Domain=hub.test; Path=/user/mallory/", ""},
		{"a", "x=1; Path=/user/mallory/;\tdOMAIN =.test", ""},
		{"a", "x=1\x00; Path=/user/mallory/", ""},
		{"a", "__Host-jupyterhub-user-mallory=1; Secure; Path=/", ""},
		{"a", "=slipway-visit=hers; Path=/", ""},
	} {
		var want []string
		if tc.want != "" {
			want = []string{tc.want}
		}
		if got := h.setBy("/user/mallory/"+tc.at, tc.line); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", tc.line, got, want)
		}
	}
	// To a browser this address lies in the directory /user.
	if got := h.setBy("/user/mallory%2Fset", "x=1"); got != nil {
		t.Errorf("a cookie for the directory above: %q", got)
	}
	if got := h.setBy("/user/m%20al/set", "x=1", "y=2; Path=/user/m%20al/", "z=3; path=/", "a=4"); !slices.Equal(got, []string{"x=1; Path=/user/m%20al", "y=2; Path=/user/m%20al/", "a=4; Path=/user/m%20al"}) {
		t.Errorf("several: %q", got)
	}
}

// A Hub with cookie_host_prefix_enabled has sessions keep their login in a cookie that must have the path /.
func TestHostCookieOfASession(t *testing.T) {
	h := mallory(t, map[string]string{"JUPYTERHUB_COOKIE_HOST_PREFIX_ENABLED": "1", "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-mallory"})
	for line, kept := range map[string]bool{
		"__Host-jupyterhub-user-mallory=1; Secure; Path=/":                true,
		"__Host-jupyterhub-user-mallory-oauth-state-ab=1; Secure; Path=/": true,
		"__Host-jupyterhub-user-mallory-b=1; Secure; Path=/":              false,
		"__Host-jupyterhub-user-bob=1; Secure; Path=/":                    false,
		"__Host-jupyterhub-user-mallory=1; Secure; Path=/hub/":            false,
		"jupyterhub-user-mallory=1; Path=/":                               false,
	} {
		if got := h.setBy("/user/mallory/a", line); (len(got) == 1) != kept {
			t.Errorf("%q: %q", line, got)
		}
	}
}

// seen are the Cookie headers that the pages and the Hub get from a browser that has looked at a shared session of
// mallory's.
type seen map[string][]string

// attacked serves a site on which a victim has a visit to the service's pages, and mallory's session sets these
// cookies. A browser that starts at the address that it returns passes all of it.
func attacked(t *testing.T, lines ...string) (seen, string) {
	h := mallory(t, nil)
	got, mux := seen{}, http.NewServeMux()
	mux.Handle("/user/", h.Public())
	mux.HandleFunc("/services/slipway/begin", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: web.VisitCookie, Value: "victim", Path: "/services/slipway/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		http.Redirect(w, r, "/user/mallory/set?"+url.Values{"c": lines, "to": {"/services/slipway/ssh"}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/services/slipway/ssh", func(w http.ResponseWriter, r *http.Request) {
		got["pages"] = r.Header["Cookie"]
		http.Redirect(w, r, "/hub/home", http.StatusFound)
	})
	mux.HandleFunc("/hub/home", func(w http.ResponseWriter, r *http.Request) {
		got["Hub"] = r.Header["Cookie"]
		http.Redirect(w, r, "/user/mallory/set?to=/user/mallory/end", http.StatusFound)
	})
	mux.HandleFunc("/user/mallory/end", func(w http.ResponseWriter, r *http.Request) { got["session"] = r.Header["Cookie"] })
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	return got, site.URL + "/services/slipway/begin"
}

// theAttack: who looks at a shared session gets its owner's visit to the service's pages, and adds an ssh key to the
// owner's list.
func theAttack() []string {
	lines := []string{"mine=1; Path=/user/mallory/", "jupyterhub-hub-login=mallory; Path=/hub/", "jupyterhub-session-id=mallory; Path=/", "_xsrf=mallory; Path=/"}
	for _, path := range []string{"/services/slipway/", "/services/slipway/ssh", "/", "/services"} {
		lines = append(lines, web.VisitCookie+"=mallory; Path="+path)
	}
	return lines
}

// fails says what the attack has reached.
func (s seen) fails(t *testing.T) {
	want := seen{"pages": {web.VisitCookie + "=victim"}, "Hub": nil, "session": {"mine=1"}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("cookies sent (-want +got):\n%s", diff)
	}
}

func TestSessionCannotReplaceTheCookieOfAVisit(t *testing.T) {
	got, start := attacked(t, theAttack()...)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Jar: jar}).Get(start)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	got.fails(t)
}

func TestSessionCannotReplaceTheCookieOfAVisitInARealBrowser(t *testing.T) {
	testenv.Need(t, testenv.Chromium)
	got, start := attacked(t, theAttack()...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
		"--disable-sync", "--disable-component-update", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), "--dump-dom", start).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got.fails(t)
}

// Browsers keep to the paths of these cookies. A proxy that changes paths, or a person who tries, may not.
func TestSessionGetsNoCredentialOfTheService(t *testing.T) {
	cookies := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", r.Header["Cookie"]) })
	h := withApps(t, newFake(lab("s-a", "alice", "/user/alice/")), map[spawner.ID]http.Handler{"s-a": cookies})
	for _, tc := range []struct{ sent, want []string }{
		{[]string{"a=1;b=2; jupyterhub-session-id=3; slipway-code=4; _xsrf=5"}, []string{"a=1;b=2; jupyterhub-session-id=3; slipway-code=4; _xsrf=5"}},
		{[]string{"slipway-visit=x; a=1; slipway-login-00=y; jupyterhub-hub-login=z"}, []string{"a=1"}},
		{[]string{"a=1; __Host-jupyterhub-hub-login=z", "jupyterhub-services=s; b=2", "slipway-visit=x"}, []string{"a=1", "b=2"}},
	} {
		_, got := h.get(t, "/user/alice/x", func(r *http.Request) { r.Header["Cookie"] = tc.sent })
		if want := fmt.Sprintf("%q", tc.want); got != want {
			t.Errorf("%q: %s", tc.sent, cmp.Diff(want, got))
		}
	}
}

// Nothing of the check applies to an answer of the series 1xx, so none is handed on.
func TestSessionsEarlyHintsStayBehind(t *testing.T) {
	h := withApps(t, newFake(lab("s-m", "mallory", "/user/mallory/")), map[spawner.ID]http.Handler{"s-m": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "slipway-visit=x; Path=/")
		w.Header().Set("Clear-Site-Data", `"*"`)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Set-Cookie")
		fmt.Fprint(w, "done")
	})})
	conn, err := net.Dial("tcp", h.front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /user/mallory/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	first, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(first, "HTTP/1.1 200 ") {
		t.Errorf("%q, %v", first, err)
	}
}
