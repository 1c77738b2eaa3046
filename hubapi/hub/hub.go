// Package hub is the client of JupyterHub's REST API. It asks; what the answers permit is decided here only as far as a
// token's scopes say so.
//
// The package promises that a Hub that is down is never taken for one that refuses, that a list is whole or an error,
// that answers are bounded in time and size, and that no token is logged, put into an error or kept: its cache knows
// tokens by their hash. A token goes to the Hub's API and to no other address, whatever an answer or a request names.
package hub

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Config says which Hub it is.
type Config struct {
	APIURL  *url.URL       // such as http://127.0.0.1:8081/hub/api
	Service string         // a user's token must hold access:services!service=<this>
	Token   secret.Text    // the token of that service. Empty: only what users' tokens can ask is asked
	CA      *x509.CertPool // what the Hub's certificate is checked against. Nil: the system's
}

// Client asks one Hub. It is safe for concurrent use.
type Client struct {
	api     string
	service string
	token   secret.Text
	plain   *http.Client          // one try
	again   *retryablehttp.Client // for what may be asked twice
	careful *retryablehttp.Client // for what may not: again only when the Hub did not take the request
	cache   *cache
	whole   int // the most bytes of all pages of a list

	vouching vouching
}

const (
	askTime     = 10 * time.Second // for one question, with its retries
	slowTime    = time.Minute      // for one that the Hub holds while a server stops (slow_stop_timeout)
	answerLimit = 1 << 20
	positiveAge = 30 * time.Second
	negativeAge = 5 * time.Second
)

// New makes a client.
func New(cfg Config) *Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil // the Hub is the site's own; a proxy of the environment must not see its tokens
	t.MaxIdleConnsPerHost = 16
	t.TLSClientConfig = &tls.Config{RootCAs: cfg.CA, MinVersion: tls.VersionTLS12}
	return newOver(cfg, t)
}

func newOver(cfg Config, t http.RoundTripper) *Client {
	plain := &http.Client{
		Transport: t,
		// A redirect is no answer of the Hub's API, and the token must not follow one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Client{
		api: strings.TrimRight(cfg.APIURL.String(), "/"), service: cfg.Service, token: cfg.Token, cache: newCache(),
		plain: plain, again: retrying(plain, 3, mayAsk), careful: retrying(plain, 20, wasNotTaken), whole: wholeSize,
	}
}

// own returns the service's token, which what needs.
func (c *Client) own(what string) (secret.Text, error) {
	if c.token.Empty() {
		return secret.Text{}, errs.New(errs.Missing, "%s: it needs the token of the Hub service %s", what, c.service).
			With("set token_file of this hub in the configuration")
	}
	return c.token, nil
}
