package hubtest

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"

	"slipway/internal/testenv"
)

// Browser is a person's: it keeps cookies and follows redirects.
type Browser struct {
	hub    *Hub
	client *http.Client
}

// Browse logs a user in, as a person does.
func (h *Hub) Browse(user string) *Browser {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	b := &Browser{hub: h, client: &http.Client{Jar: jar, Timeout: testenv.Hang}}
	b.Get("/hub/login")
	r := b.Post("/hub/login", url.Values{"username": {user}, "password": {Password}})
	if r.Status != http.StatusOK {
		h.t.Fatalf("log in as %s: %s", user, r.Text())
	}
	b.Get("/hub/home") // the cookie against forged requests is another one after the login
	return b
}

// scopesOf finds what an authorization page asks for.
var scopesOf = regexp.MustCompile(`name="scopes" value="([^"]+)"`)

// Authorize says yes on the page where the Hub asks whether another's server may learn who one is, and goes on from
// there.
func (b *Browser) Authorize(page Reply) Reply {
	b.hub.t.Helper()
	form := url.Values{}
	for _, found := range scopesOf.FindAllSubmatch(page.Body, -1) {
		form.Add("scopes", html.UnescapeString(string(found[1])))
	}
	if len(form) == 0 {
		b.hub.t.Fatalf("not a page that asks for authorization: %s", page.Text())
	}
	return b.post(page.URL, form)
}

// Get opens a page below the Hub's base path.
func (b *Browser) Get(path string) Reply {
	b.hub.t.Helper()
	req, err := http.NewRequest(http.MethodGet, b.hub.URL+path, nil)
	if err != nil {
		b.hub.t.Fatal(err)
	}
	return b.do(req)
}

// Post sends a form, with the Hub's protection against forged requests.
func (b *Browser) Post(path string, form url.Values) Reply {
	b.hub.t.Helper()
	return b.post(b.hub.URL+path, form)
}

func (b *Browser) post(address string, form url.Values) Reply {
	b.hub.t.Helper()
	if token := b.xsrf(address); token != "" {
		form.Set("_xsrf", token)
	}
	req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.hub.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.do(req)
}

// Cookies returns what the browser would send with a request for a path.
func (b *Browser) Cookies(path string) []*http.Cookie {
	b.hub.t.Helper()
	u, err := url.Parse(b.hub.URL + path)
	if err != nil {
		b.hub.t.Fatal(err)
	}
	return b.client.Jar.Cookies(u)
}

func (b *Browser) xsrf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		b.hub.t.Fatal(err)
	}
	for _, c := range b.client.Jar.Cookies(u) {
		if c.Name == "_xsrf" {
			return c.Value
		}
	}
	return ""
}

// do sends a request as a browser does that navigates within the site.
func (b *Browser) do(req *http.Request) Reply {
	b.hub.t.Helper()
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("Sec-Fetch-Dest", "document")
	req.Header.Set("Accept", "text/html,*/*")
	resp, err := b.client.Do(req)
	if err != nil {
		return Reply{Body: []byte(err.Error())}
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return Reply{resp.StatusCode, text, resp.Header, resp.Request.URL.String()}
}
