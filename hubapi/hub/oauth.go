package hub

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// OAuth logs users in by the Hub, as a Hub service with pages does (source: jupyterhub/services/auth.py, HubOAuth). The
// browser goes to the Hub's public address; the code that it brings back is exchanged over the API. The Hub gives every
// service the client id service-<name>, and its API token is the client's secret.
type OAuth struct {
	Client *Client
	// the Hub as browsers reach it, such as https://hub.example.org/. Nil: the API's path on the pages' own host
	Public *url.URL
	// where the Hub sends the browser back, as the Hub has it: by default /services/<name>/oauth_callback
	Redirect string
}

// Login is one login that has begun. State and Verifier are kept in the browser's cookie until it comes back, nowhere
// else.
type Login struct {
	URL      string // to send the browser to
	State    string // must come back unchanged with the code
	Verifier string // for Exchange; empty where the Hub knows no PKCE
}

// pkceSince is the first release of the Hub that knows PKCE.
const pkceSince = 6

// Begin begins a login.
func (o OAuth) Begin(ctx context.Context) (Login, error) {
	if _, err := o.Client.own("log in by the Hub"); err != nil {
		return Login{}, err
	}
	version, err := o.Client.Version(ctx)
	if err != nil {
		return Login{}, err
	}
	l := Login{State: rand.Text()}
	q := url.Values{"client_id": {o.id()}, "redirect_uri": {o.Redirect}, "response_type": {"code"}, "state": {l.State}}
	if version.Major() >= pkceSince {
		l.Verifier = rand.Text() + rand.Text() // 43 characters are the least
		sum := sha256.Sum256([]byte(l.Verifier))
		q.Set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
		q.Set("code_challenge_method", "S256")
	}
	l.URL = o.authorize() + "?" + q.Encode()
	return l, nil
}

func (o OAuth) id() string { return "service-" + o.Client.service }

// authorize returns the address of the Hub's page that asks the user.
func (o OAuth) authorize() string {
	if o.Public != nil {
		return o.Public.JoinPath("hub/api/oauth2/authorize").String()
	}
	api, err := url.Parse(o.Client.api)
	if err != nil {
		return "/hub/api/oauth2/authorize"
	}
	return strings.TrimRight(api.EscapedPath(), "/") + "/oauth2/authorize"
}

// Exchange returns the user's token for the code that the browser has brought; Unauthorized when the Hub does not take
// the code. Whose token it is, Identify tells.
func (o OAuth) Exchange(ctx context.Context, code, verifier string) (secret.Text, error) {
	const what = "log in by the Hub"
	own, err := o.Client.own(what)
	if err != nil {
		return secret.Text{}, err
	}
	form := url.Values{
		"client_id": {o.id()}, "client_secret": {own.Reveal()}, "grant_type": {"authorization_code"},
		"code": {code}, "redirect_uri": {o.Redirect},
	}
	if verifier != "" {
		form.Set("code_verifier", verifier)
	}
	// A code is good for one try, but a Hub that throttles has not looked at it.
	k := call{method: http.MethodPost, path: "/oauth2/token", body: form, what: what, careful: true}
	var answer struct {
		Token string `json:"access_token"`
	}
	if _, err := o.Client.ask(ctx, k, &answer); err != nil {
		return secret.Text{}, refusedCode(err)
	}
	if answer.Token == "" {
		return secret.Text{}, errs.New(errs.Unavailable, "%s: the Hub's answer has no token in it", what)
	}
	return secret.New(answer.Token), nil
}

func refusedCode(err error) error {
	switch errs.KindOf(err) {
	case errs.Invalid, errs.Forbidden, errs.Unauthorized:
		return errs.New(errs.Unauthorized, "log in by the Hub: it does not take the code: %w", err).With("log in again")
	default:
		return err
	}
}
