package authproxy

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// The cookies of a gate, and the Hub's that is another one after a logout.
const (
	visitCookie = "slipway-code"       // of who was let in
	loginCookie = "slipway-code-login" // of who is on her way through the Hub
	hubSession  = "jupyterhub-session-id"
)

// admit says who a visitor is. When she may not come in it has answered her, and gives nil. byURL: by a token in the
// address.
func (g *Proxy) admit(w http.ResponseWriter, r *http.Request) (v *visitor, byURL bool) {
	if m := inHeader.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		return g.admitProgram(w, r, m[1]), false
	}
	fromElsewhere := foreign(r)
	if !fromElsewhere {
		v, err := g.known(r)
		if v != nil {
			return v, false
		}
		if err != nil {
			g.trouble(w, r, err)
			return nil, false
		}
	}
	token := r.URL.Query().Get("token")
	switch {
	case token != "":
		return g.admitProgram(w, r, token), true
	case fromElsewhere:
		tell(w, r, notice{
			status: http.StatusForbidden, title: "Not from here",
			text: "The request comes from a page of another site.",
		})
	default:
		g.askToLogIn(w, r)
	}
	return nil, false
}

// known finds who has a cookie of the gate's that is still good. An error says that this is not known at the moment.
func (g *Proxy) known(r *http.Request) (*visitor, error) {
	session := digestOf(cookie(r, hubSession))
	// a server and one whose path begins with its path may both have one
	for _, c := range r.CookiesNamed(visitCookie) {
		v := g.visitors.find(c.Value)
		if v == nil {
			continue
		}
		err := v.good(r.Context(), g.hub, session)
		if err == nil {
			return v, nil
		}
		if !refused(err) {
			return nil, err
		}
		g.visitors.remove(c.Value)
	}
	return nil, nil
}

// admitProgram lets in who has a token of the Hub's.
func (g *Proxy) admitProgram(w http.ResponseWriter, r *http.Request, token string) *visitor {
	v := g.programs.find(token)
	if v == nil {
		v = &visitor{token: secret.New(token)}
	}
	err := v.good(r.Context(), g.hub, digest{})
	switch {
	case err == nil:
		g.programs.add(token, v)
		return v
	case refused(err): // it may be the token of another user, or none: both are told alike
		g.programs.remove(token)
		err = errs.New(errs.Forbidden, "this token does not let into this server")
	}
	g.trouble(w, r, err)
	return nil
}

var inHeader = regexp.MustCompile(`(?i)^(?:token|bearer)\s+(\S+)$`)

// foreign reports whether a browser says that a page of another site or another host has made a request. Following a
// link is no such request: it only shows a page.
func foreign(r *http.Request) bool {
	reads := (r.Method == http.MethodGet || r.Method == http.MethodHead ||
		r.Method == http.MethodOptions) && !upgrades(r)
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		if !reads || r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return true
		}
	}
	origin := r.Header.Get("Origin")
	if origin == "" || reads && r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		return false
	}
	u, err := url.Parse(origin)
	asked, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Host"), ",")
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) && !strings.EqualFold(
		u.Host, strings.TrimSpace(asked),
	)
}

func upgrades(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// cookie returns the value of a cookie; empty: there is none.
func cookie(r *http.Request, name string) string {
	if c, err := r.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}

// askToLogIn sends a person to the Hub, and refuses all else.
func (g *Proxy) askToLogIn(w http.ResponseWriter, r *http.Request) {
	if !isPage(r) {
		tell(w, r, notice{
			status: http.StatusForbidden, title: "Not logged in", text: "You are not logged in, or not any more.",
			next: "Load the page again.",
		})
		return
	}
	state, browser, challenge := g.logins.begin(cookie(r, loginCookie), g.address(r))
	http.SetCookie(w, g.cookie(r, loginCookie, browser, loginTime))
	q := url.Values{
		"client_id": {g.set.client}, "redirect_uri": {g.set.redirect}, "response_type": {"code"}, "state": {state},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, g.set.authorize+"?"+q.Encode(), http.StatusFound)
}

const longAddress = 2 << 10 // bytes: logins under way are kept in memory, and nobody has to be known to begin one

// address is what a visitor asked for, as an address below the gate's path as its cookies have that; one that is too
// long to be kept is that path alone.
func (g *Proxy) address(r *http.Request) string {
	next := r.URL.EscapedPath()
	if !strings.HasPrefix(next, g.set.path) {
		to := url.URL{Path: strings.TrimPrefix(r.URL.Path, g.set.base)}
		next = g.set.path + to.EscapedPath()
	}
	if r.URL.RawQuery != "" {
		next += "?" + r.URL.RawQuery
	}
	if len(next) > longAddress {
		return g.set.path
	}
	return next
}

// cookie makes one of the gate's.
func (g *Proxy) cookie(r *http.Request, name, value string, age time.Duration) *http.Cookie {
	path := g.set.path
	if name == loginCookie {
		path = g.set.prefix // the way back need not lie below the gate's path
	}
	return &http.Cookie{
		Name: name, Value: value, Path: path, MaxAge: int(age / time.Second), HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: g.set.https || byHTTPS(r),
	}
}

// byHTTPS reports whether the browser speaks https, as the first proxy has said.
func byHTTPS(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return r.TLS != nil || strings.EqualFold(strings.TrimSpace(first), "https")
}

// finish takes a visitor back from the Hub.
func (g *Proxy) finish(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	q := r.URL.Query()
	one, ok := g.logins.take(q.Get("state"), cookie(r, loginCookie))
	if !ok {
		tell(w, r, notice{status: http.StatusForbidden, title: "The login has come of age", text: "This login was not begun in this browser, or it took too long.",
			next: "Begin again.", link: g.set.path})
		return
	}
	if q.Get("code") == "" {
		tell(w, r, notice{
			status: http.StatusForbidden, title: "Not logged in", text: "The Hub has not let you in.",
			next: "Begin again.", link: g.set.path,
		})
		return
	}
	v, err := g.welcome(r.Context(), q.Get("code"), one.verifier, digestOf(cookie(r, hubSession)))
	if err != nil {
		g.trouble(w, r, err)
		return
	}
	key := rand.Text() + rand.Text()
	g.visitors.add(key, v)
	http.SetCookie(w, g.cookie(r, visitCookie, key, 0))
	http.Redirect(w, r, one.next, http.StatusFound)
}

// welcome makes a visitor of who has brought a code.
func (g *Proxy) welcome(ctx context.Context, code, verifier string, session digest) (*visitor, error) {
	token, err := g.hub.exchange(ctx, code, verifier)
	if err != nil {
		return nil, err
	}
	v := &visitor{token: token}
	return v, v.good(ctx, g.hub, session)
}

// watch ends an open connection when its visitor may not come in any more.
func (g *Proxy) watch(ctx context.Context, v *visitor, end func()) {
	every := time.NewTicker(recheck)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		v.mu.Lock()
		session := v.session
		v.mu.Unlock()
		if err := v.good(ctx, g.hub, session); err != nil && ctx.Err() == nil {
			g.log.Info("a visitor may not come in any more", "error", errs.Brief(err))
			end()
			return
		}
	}
}
