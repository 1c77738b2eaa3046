package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"slipway/hubapi/hub"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

// elements returns the elements of a name in a page.
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

// formToken returns the token that a page's forms send.
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

// streamKey returns the word with which a page asks for events.
func streamKey(t *testing.T, page string) string {
	t.Helper()
	_, rest, _ := strings.Cut(page, `stream = "`)
	key, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("the page has no key of the stream: %s", page)
	}
	return key
}

// cookieOf returns the name of the cookie of a login that has begun.
func cookieOf(state string) string {
	sum := sha256.Sum256([]byte(state))
	return web.LoginCookie + hex.EncodeToString(sum[:8])
}

// beginsVisit reports whether an answer begins a visit.
func beginsVisit(r *httptest.ResponseRecorder) bool {
	return slices.ContainsFunc(r.Result().Cookies(), func(c *http.Cookie) bool { return c.Name == web.VisitCookie })
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

// startPages serves the pages of two hubs: main's at prefix, and other's, which knows only users whose names begin with
// "o".
func startPages(t *testing.T, engine *fakeEngine, change func(*Config)) *harness {
	t.Helper()
	return start(t, engine, func(c *Config) {
		c.Hubs[0].PagesPrefix, c.Hubs[0].OAuth = prefix, &fakeOAuth{host: "hub.test"}
		c.Hubs = append(c.Hubs, hubs.Hub{
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
