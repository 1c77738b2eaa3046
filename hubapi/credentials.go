package hubapi

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// CredentialHolder says whom a user stands for by a credential, and where that is from.
type CredentialHolder struct {
	Name    string `json:"name"` // of the credential: the issuer's in the service's configuration, or ProxyCredential
	Kind    string `json:"kind"` // token or proxy
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"` // who she is there
	From    string `json:"from"`    // hub, device, given or upload
	Trouble string `json:"trouble"` // what is wrong, and what its user does; empty: nothing
}

// Credential is a token or a proxy that the service keeps for a user and puts into her sessions and jobs. There is no
// secret in it.
type Credential struct {
	CredentialHolder
	Scopes    []string   `json:"scopes"`
	Audiences []string   `json:"audiences"`
	VO        string     `json:"vo"`
	FQANs     []string   `json:"fqans"`
	Expires   *time.Time `json:"expires"` // of what sessions and jobs have now
	Renewable bool       `json:"renewable"`
	Until     *time.Time `json:"until"` // how long it can be renewed; null: not known
	Notes     []string   `json:"notes"`
	Updated   *time.Time `json:"updated"`
}

// ProxyCredential is the name of the credential that is a proxy.
const ProxyCredential = "x509"

// Credentials is the answer of a list of credentials.
type Credentials struct {
	User        string       `json:"user"`
	Credentials []Credential `json:"credentials"`
	Issuers     []string     `json:"issuers"` // at which one can log in
	Proxies     bool         `json:"proxies"` // whether the service takes X.509 proxies
}

// ProxyRequest puts a proxy.
type ProxyRequest struct {
	Proxy string `json:"proxy"` // its file: certificates and the key in PEM
}

// String hides the proxy.
func (ProxyRequest) String() string { return "a proxy" }

// GoString hides it.
func (ProxyRequest) GoString() string { return "a proxy" }

// RefreshTokenRequest gives a refresh token.
type RefreshTokenRequest struct {
	RefreshToken string `json:"refresh_token"`
}

// String hides the token.
func (RefreshTokenRequest) String() string { return "a refresh token" }

// GoString hides it.
func (RefreshTokenRequest) GoString() string { return "a refresh token" }

// CredentialLogin is a login at an issuer that the user confirms there in a browser.
type CredentialLogin struct {
	ID      string    `json:"id"`
	Issuer  string    `json:"issuer"` // its name in the configuration
	URL     string    `json:"url"`
	Code    string    `json:"code"`
	Expires time.Time `json:"expires"`
}

// CredentialLoginState is what has become of it.
type CredentialLoginState struct {
	Pending    bool        `json:"pending"`
	Credential *Credential `json:"credential"` // null while it is pending
}

// CredentialRemoval says what came of taking a credential away.
type CredentialRemoval struct {
	Name string `json:"name"`
	Note string `json:"note"` // why its issuer could not be told to revoke it, and what to do; empty: nothing is left to do
}

// Credentials lists the caller's credentials, or for an administrator those of another user.
func (c *Client) Credentials(ctx context.Context, user string) (Credentials, error) {
	return fetch[Credentials](ctx, c, http.MethodGet, query("/credentials", "user", user), nil)
}

// PutProxy puts a proxy in place of the one before.
func (c *Client) PutProxy(ctx context.Context, r ProxyRequest) (Credential, error) {
	return fetch[Credential](ctx, c, http.MethodPut, path("credentials", ProxyCredential), r)
}

// GiveRefreshToken gives a refresh token of an issuer in place of what there was.
func (c *Client) GiveRefreshToken(ctx context.Context, issuer string, r RefreshTokenRequest) (Credential, error) {
	return fetch[Credential](ctx, c, http.MethodPut, path("credentials", issuer, "refresh-token"), r)
}

// RenewCredential renews a token now.
func (c *Client) RenewCredential(ctx context.Context, name string) (Credential, error) {
	return fetch[Credential](ctx, c, http.MethodPost, path("credentials", name, "renew"), nil)
}

// RemoveCredential takes a credential of the caller's away, or for an administrator one of another user, and has it
// revoked.
func (c *Client) RemoveCredential(ctx context.Context, name, user string) (CredentialRemoval, error) {
	return fetch[CredentialRemoval](ctx, c, http.MethodDelete, query(path("credentials", name), "user", user), nil)
}

// BeginCredentialLogin begins a login at an issuer.
func (c *Client) BeginCredentialLogin(ctx context.Context, issuer string) (CredentialLogin, error) {
	return fetch[CredentialLogin](ctx, c, http.MethodPost, path("credentials", issuer, "login"), nil)
}

// AwaitCredentialLogin waits up to 20 s for a login to be confirmed: errs.Forbidden where it was refused, errs.NotFound
// where its time is over.
func (c *Client) AwaitCredentialLogin(ctx context.Context, id string) (CredentialLoginState, error) {
	return fetch[CredentialLoginState](ctx, c, http.MethodGet, "/credential-logins/"+url.PathEscape(id), nil)
}
