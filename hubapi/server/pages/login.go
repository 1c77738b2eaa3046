package pages

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/internal/webui"
)

const (
	visitTime  = time.Hour // then the Hub is asked for a new login, of which the user sees nothing
	loginTime  = 10 * time.Minute
	visitLimit = 10_000
	userLimit  = 20   // of visits of one user, whose oldest then ends: a single one must not end those of all others
	nextLimit  = 1000 // bytes of a path to come back to
)

// visit is one user's login in one browser.
type visit struct {
	hub    string
	user   string
	token  secret.Text // the user's, of the Hub
	form   string      // what the pages' forms and scripts send
	stream string      // what the event stream is asked with: it stands in an address, so it is good for nothing else
	until  time.Time
}

// visits are kept in memory alone: after a restart the Hub logs everybody in anew, unseen.
type visits struct {
	mu    sync.Mutex // guards byKey
	byKey map[string]visit
}

func newVisits() *visits { return &visits{byKey: map[string]visit{}} }

// add keeps a visit and gives the word for the cookie.
func (v *visits) add(hub, user string, token secret.Text) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	v.limitLocked(hub, user)
	if len(v.byKey) >= visitLimit {
		for key, old := range v.byKey {
			if !now.Before(old.until) {
				delete(v.byKey, key)
			}
		}
	}
	if len(v.byKey) >= visitLimit {
		v.byKey = map[string]visit{}
	}
	key := rand.Text()
	v.byKey[key] = visit{
		hub: hub, user: user, token: token, form: rand.Text(), stream: rand.Text(), until: now.Add(visitTime),
	}
	return key
}

// limitLocked makes room for one more visit of a user.
func (v *visits) limitLocked(hub, user string) {
	n, oldest := 0, ""
	for key, old := range v.byKey {
		if old.hub != hub || old.user != user {
			continue
		}
		if n++; oldest == "" || old.until.Before(v.byKey[oldest].until) {
			oldest = key
		}
	}
	if n >= userLimit {
		delete(v.byKey, oldest)
	}
}

// find returns a visit to a hub's pages that has not ended.
func (v *visits) find(key, hub string) (visit, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found, ok := v.byKey[key]
	return found, ok && found.hub == hub && time.Now().Before(found.until)
}

func (v *visits) drop(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.byKey, key)
}

// same compares secrets; nothing is not the same as nothing.
func same(given, want string) bool {
	return want != "" && subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// attempt is a login that has begun, as the browser's cookie keeps it, sealed.
type attempt struct {
	State    string    `json:"state"`
	Verifier string    `json:"verifier"`
	Next     string    `json:"next"` // the path to come back to
	Until    time.Time `json:"until"`
}

// begin sends the browser to the Hub, to come back to the page that it asked for.
func (p *Pages) begin(w http.ResponseWriter, r *http.Request) error {
	h := hubOfPage(r.Context())
	l, err := h.OAuth.Begin(r.Context())
	if err != nil {
		return err
	}
	next := r.URL.RequestURI()
	if !strings.HasPrefix(next, h.PagesPrefix) || len(next) > nextLimit || web.Climbs(r.URL.EscapedPath()) {
		next = h.PagesPrefix
	}
	plain, err := json.Marshal(
		attempt{State: l.State, Verifier: l.Verifier, Next: next, Until: time.Now().Add(loginTime)},
	)
	if err != nil {
		return err
	}
	p.setCookie(w, r, attemptCookie(l.State), p.seal(plain, "login "+h.Name), loginTime)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, l.URL, http.StatusFound)
	return nil
}

func (p *Pages) seal(plain []byte, purpose string) string {
	return base64.RawURLEncoding.EncodeToString(p.cfg.Box.Seal(plain, purpose))
}

func (p *Pages) unseal(sealed, purpose string) ([]byte, error) {
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return nil, err
	}
	return p.cfg.Box.Open(b, purpose)
}

func attemptCookie(state string) string {
	sum := sha256.Sum256([]byte(state))
	return web.LoginCookie + hex.EncodeToString(sum[:8])
}

// callback takes the code that the browser brings from the Hub.
func (p *Pages) callback(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a, ok := p.attempt(r, q.Get("state"))
	p.setCookie(w, r, attemptCookie(q.Get("state")), "", -1) // one try
	switch {
	case !ok:
		p.problem(w, r, errs.New(errs.Forbidden, "this login was not begun in this browser, or too long ago").
			With("begin again from the page of your sessions and jobs; if it comes to this again, let your browser keep cookies of this site"))
		return
	case q.Get("error") != "" || q.Get("code") == "":
		p.problem(w, r, errs.New(errs.Forbidden, "the Hub has not let you in").
			With("begin again, and agree when the Hub asks whether Slipway may know who you are"))
		return
	}
	if err := p.enter(w, r, q.Get("code"), a.Verifier); err != nil {
		p.problem(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer") // the code is in this address
	http.Redirect(w, r, a.Next, http.StatusFound)
}

// attempt finds the login that state is of.
func (p *Pages) attempt(r *http.Request, state string) (attempt, bool) {
	var a attempt
	cookie, err := r.Cookie(attemptCookie(state))
	if err != nil {
		return a, false
	}
	plain, err := p.unseal(cookie.Value, "login "+hubOfPage(r.Context()).Name)
	if err != nil || json.Unmarshal(plain, &a) != nil {
		return a, false
	}
	return a, same(state, a.State) && time.Now().Before(a.Until)
}

// enter exchanges the code for the user's token, and begins the visit.
func (p *Pages) enter(w http.ResponseWriter, r *http.Request, code, verifier string) error {
	h := hubOfPage(r.Context())
	token, err := h.OAuth.Exchange(r.Context(), code, verifier)
	if err != nil {
		return err
	}
	id, err := h.Identify(r.Context(), token.Reveal())
	if err != nil {
		return err
	}
	web.TraceOf(r.Context()).Caller = audit.CallerName(h.Caller(id))
	p.setCookie(w, r, web.VisitCookie, p.visits.add(h.Name, id.Name, token), visitTime)
	return nil
}

func (p *Pages) logout(_ *http.Request, v visitor) (string, error) {
	p.visits.drop(v.key)
	return "logged_out", nil
}

// loggedOut says so. It must not lead to the other pages by itself: the Hub would log the user in again.
func (p *Pages) loggedOut(w http.ResponseWriter, r *http.Request) {
	webui.Tell(w, r, webui.Notice{Status: http.StatusOK, Title: "Logged out", Text: "You are logged out of Slipway's pages.",
		Next: "You may still be logged in at the Hub: log out there, too, before you leave this computer to others.",
		Link: hubOfPage(r.Context()).Home() + "logout", Label: "Log out of the Hub"})
}

// setCookie keeps a word in the browser, for the pages alone; an age below zero drops it.
func (p *Pages) setCookie(w http.ResponseWriter, r *http.Request, name, value string, age time.Duration) {
	c := &http.Cookie{
		Name: name, Value: value, Path: hubOfPage(r.Context()).PagesPrefix, MaxAge: int(age / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: encrypted(r),
	}
	if age < 0 {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// encrypted reports whether the browser came by HTTPS. The first proxy's word is the one about the browser.
func encrypted(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return r.TLS != nil || strings.EqualFold(strings.TrimSpace(first), "https")
}
