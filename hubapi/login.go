package hubapi

import (
	"context"
	"net/http"
	"time"
)

// DeviceLogin is a login of a program that waits until its user confirms it in a browser (RFC 8628).
type DeviceLogin struct {
	ID       string    `json:"id"`       // a secret: who knows it gets what the user confirms
	Code     string    `json:"code"`     // what the user types on the page
	URL      string    `json:"url"`      // the page; its path at the Hub alone where the service does not know the Hub's address
	Interval int       `json:"interval"` // seconds to wait between two looks
	Expires  time.Time `json:"expires"`
}

// String hides the secret.
func (l DeviceLogin) String() string { return "[login at " + l.URL + "]" }

// GoString hides it.
func (l DeviceLogin) GoString() string { return l.String() }

// DeviceLoginRequest begins a login for an access token.
type DeviceLoginRequest struct {
	Computer string `json:"computer"` // shown to the user, who confirms
	Program  string `json:"program"`  // likewise: what asks, such as "slipway 1.2.0, linux/amd64"
	Hub      string `json:"hub"`      // empty where the service has one alone
}

// DeviceLoginPoll asks what has become of a login.
type DeviceLoginPoll struct {
	ID string `json:"id"`
}

// The statuses of a login: Approved, or an error of RFC 8628, section 3.5.
const (
	LoginApproved = "approved"
	LoginPending  = "authorization_pending"
	LoginSlowDown = "slow_down" // Interval is longer from now on
	LoginDenied   = "access_denied"
	LoginExpired  = "expired_token" // or it was fetched already, or there never was one
)

// DeviceLoginState is what has become of a login. What was approved is told once.
type DeviceLoginState struct {
	Status   string       `json:"status"`   // approved, authorization_pending, slow_down, access_denied or expired_token
	Interval int          `json:"interval"` // seconds to wait before the next look
	Token    string       `json:"token"`    // the access token, a secret; empty: it is not approved
	Access   *AccessToken `json:"access"`   // what the token is; null: it is not approved
}

// String hides the secret.
func (s DeviceLoginState) String() string { return "[login: " + s.Status + "]" }

// GoString hides it.
func (s DeviceLoginState) GoString() string { return s.String() }

// AccessToken is a token by which a program on a user's own computer is known as the user. The token itself is told
// once alone.
type AccessToken struct {
	ID       string    `json:"id"`
	Hub      string    `json:"hub"`
	User     string    `json:"user"`
	Computer string    `json:"computer"` // where it was asked for, as the program said; empty: it was not said
	Program  string    `json:"program"`  // which has asked, likewise
	Address  string    `json:"address"`  // from which it was asked for; empty: not known
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"`
}

// AccessTokens is the answer of a list of tokens.
type AccessTokens struct {
	Tokens []AccessToken `json:"tokens"`
}

// BeginLogin begins a login for an access token. No token is needed.
func (c *Client) BeginLogin(ctx context.Context, r DeviceLoginRequest) (DeviceLogin, error) {
	return fetch[DeviceLogin](ctx, c, http.MethodPost, "/login/device", r)
}

// PollLogin looks what has become of a login. No token is needed.
func (c *Client) PollLogin(ctx context.Context, id string) (DeviceLoginState, error) {
	return fetch[DeviceLoginState](ctx, c, http.MethodPost, "/login/token", DeviceLoginPoll{ID: id})
}

// AccessTokens lists the caller's tokens that hold now.
func (c *Client) AccessTokens(ctx context.Context) ([]AccessToken, error) {
	list, err := fetch[AccessTokens](ctx, c, http.MethodGet, "/tokens", nil)
	return list.Tokens, err
}

// RevokeAccessToken ends one of the caller's tokens.
func (c *Client) RevokeAccessToken(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, path("tokens", id), nil, nil)
}
