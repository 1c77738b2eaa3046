// Package hub is the client of JupyterHub's REST API. It asks; what the answers permit is decided here only as far as a token's
// scopes say so.
//
// The package promises that a Hub that is down is never taken for one that refuses, that answers are bounded in time and size,
// and that no token is logged or kept: its cache knows tokens by their hash.
package hub

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"slipway/internal/errs"
)

// Config says which Hub it is.
type Config struct {
	APIURL  *url.URL // such as http://127.0.0.1:8081/hub/api
	Service string   // a user's token must hold access:services!service=<this>
}

// Identity is a user as the Hub knows the owner of a token.
type Identity struct {
	Name   string
	Scopes []string
}

// Client asks one Hub. It is safe for concurrent use.
type Client struct {
	api     string
	service string
	http    *http.Client
	cache   *cache
}

const (
	askTime     = 10 * time.Second // for one question, with its retries
	answerLimit = 1 << 20
	positiveAge = 30 * time.Second
	negativeAge = 5 * time.Second
)

// New makes a client.
func New(cfg Config) *Client {
	r := retryablehttp.NewClient()
	r.Logger = nil // it would log URLs at each try; the one error at the end says enough
	r.RetryMax, r.RetryWaitMin, r.RetryWaitMax = 3, 100*time.Millisecond, time.Second
	r.HTTPClient.Timeout = askTime
	r.ErrorHandler = retryablehttp.PassthroughErrorHandler
	// A redirect is no answer of the Hub's API, and the token must not follow one.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r.HTTPClient.CheckRedirect = stay
	client := r.StandardClient()
	client.CheckRedirect = stay
	return &Client{api: strings.TrimRight(cfg.APIURL.String(), "/"), service: cfg.Service, http: client, cache: newCache()}
}

// user is what GET /user answers of the owner of the token.
type user struct {
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Scopes []string `json:"scopes"`
}

// Identify finds the user of a Hub token that gives access to this service: Unauthorized when the Hub does not know the token,
// Forbidden when the token is not for this service, Unavailable when the Hub cannot be asked.
func (c *Client) Identify(ctx context.Context, token string) (Identity, error) {
	return c.cache.get(ctx, sha256.Sum256([]byte(token)), func(ctx context.Context) (Identity, error) {
		return c.ask(ctx, token)
	})
}

func (c *Client) ask(ctx context.Context, token string) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api+"/user", nil)
	if err != nil {
		return Identity{}, fmt.Errorf("ask the Hub: %w", err)
	}
	req.Header.Set("Authorization", "token "+token)
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return Identity{}, c.down(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return Identity{}, errs.New(errs.Unauthorized, "the Hub does not know the token").With("make a new one on the Hub's token page")
	case resp.StatusCode != http.StatusOK:
		return Identity{}, c.down(fmt.Errorf("it answers %s", resp.Status))
	}
	var u user
	if err := json.NewDecoder(io.LimitReader(resp.Body, answerLimit)).Decode(&u); err != nil {
		return Identity{}, c.down(fmt.Errorf("read its answer: %w", err))
	}
	return c.judge(u)
}

// down keeps the cause, with the Hub's address in it, for the log: whoever calls is not known yet.
func (c *Client) down(err error) error {
	return &errs.Error{
		Kind: errs.Unavailable, Message: "the Hub, which knows who is calling, does not answer", Remedy: "try again in a moment",
		Err: fmt.Errorf("ask %s: %w", c.api, err),
	}
}

// judge admits users whose token holds the scope. A service's token is nobody's: its name may be a user's, too.
func (c *Client) judge(u user) (Identity, error) {
	if u.Kind != "user" || u.Name == "" {
		return Identity{}, errs.New(errs.Forbidden, "the token belongs to no user of the Hub").With("use a user's own token")
	}
	scope := "access:services!service=" + c.service
	if !slices.Contains(u.Scopes, scope) && !slices.Contains(u.Scopes, "access:services") {
		return Identity{}, errs.New(errs.Forbidden, "the token of %s lacks the scope %s", u.Name, scope).
			With("make a token on the Hub's token page; if it lacks the scope, too, the administrator grants it to your role")
	}
	return Identity{Name: u.Name, Scopes: u.Scopes}, nil
}
