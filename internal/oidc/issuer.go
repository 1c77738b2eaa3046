// Package oidc is the client of one OIDC issuer: discovery, keys, refresh, login by device flow, token exchange and
// revocation.
//
// Promises: every answer has a deadline and a bounded size; nothing is sent but over TLS, and no redirect is followed;
// a token that says what it is (a JWT) is taken only when this issuer has signed it with a key of its own by a
// public-key algorithm, and it holds now; new keys are fetched when a token names one, and not more often than every
// few seconds; no error holds a token.
//
// It must not keep anything: a refresh token that an answer holds has replaced the one that was sent, and the caller
// saves it before she does anything else. So answers are given before they are checked, which is Check's. That is also
// why requests are made here and not by golang.org/x/oauth2: it puts whole answers into errors, gives up a login by
// device flow when the issuer is away for a moment, drops what it granted when the caller's context ends, and knows
// neither token exchange nor revocation, so that their requests would be made here all the same.
package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Config is what a Client needs.
type Config struct {
	Name         string // in errors
	URL          string // the issuer's identifier, https
	ClientID     string
	ClientSecret secret.Text // empty: a public client
	Scopes       []string    // asked for at a login by device flow
	Claims       []string    // of its tokens that Facts have, beside what every caller needs
	CA           []byte      // PEM of the authorities that its certificate is checked against; empty: the host's
	Patience     time.Duration
}

const (
	defaultPatience = 20 * time.Second
	keysEvery       = 10 * time.Second // between two requests for the issuer's keys
	metadataHolds   = time.Hour
	metadataRetry   = 5 * time.Second // after a request for it that failed, all who ask get that error
)

// Client speaks to one issuer. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client

	asking chan struct{} // holds one token while the metadata are being fetched
	mu     sync.Mutex    // guards all below
	known  *metadata
	at     time.Time // when the metadata were asked for
	failed error     // the last time
}

// New makes a Client. It asks nothing yet.
func New(cfg Config) (*Client, error) {
	if err := checkURL("issuer", cfg.URL); err != nil {
		return nil, err
	}
	if cfg.ClientID == "" {
		return nil, errs.Bad("client_id", "", "the name under which the issuer knows Slipway")
	}
	if cfg.Patience == 0 {
		cfg.Patience = defaultPatience
	}
	way := http.DefaultTransport.(*http.Transport).Clone()
	if len(cfg.CA) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(cfg.CA) {
			return nil, errs.New(errs.Invalid, "ca_file: no certificate in it").With("certificates in PEM form")
		}
		way.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c := &Client{cfg: cfg, asking: make(chan struct{}, 1)}
	c.http = &http.Client{Transport: &bounded{way: way}, Timeout: cfg.Patience, CheckRedirect: stay}
	return c, nil
}

// URL returns the issuer's identifier.
func (c *Client) URL() string { return c.cfg.URL }

// Offers is what an issuer can do beside refreshing.
type Offers struct{ Device, Exchange, Revoke bool }

// Offers asks the issuer what it can do.
func (c *Client) Offers(ctx context.Context) (Offers, error) {
	m, err := c.metadata(ctx)
	if err != nil {
		return Offers{}, err
	}
	return Offers{Device: m.Device != "", Exchange: m.grants(grantExchange), Revoke: m.Revocation != ""}, nil
}

// stay keeps a request, and the secrets in it, where it was sent.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// checkURL refuses what is not to be spoken to.
func checkURL(field, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errs.Bad(field, text, "a URL that begins with https://")
	}
	return nil
}
