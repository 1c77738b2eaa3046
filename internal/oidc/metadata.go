package oidc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"slipway/internal/errs"
)

// metadata is what an issuer tells of itself.
type metadata struct {
	Token      string   `json:"token_endpoint"`
	Device     string   `json:"device_authorization_endpoint"`
	Revocation string   `json:"revocation_endpoint"`
	Keys       string   `json:"jwks_uri"`
	Methods    []string `json:"token_endpoint_auth_methods_supported"`
	Grants     []string `json:"grant_types_supported"`

	keys oidc.KeySet
}

func (m *metadata) grants(grant string) bool { return slices.Contains(m.Grants, grant) }

// metadata returns what the issuer tells of itself, as of the last hour. When it does not answer, what it told before
// is good enough.
func (c *Client) metadata(ctx context.Context) (*metadata, error) {
	if m, err, fresh := c.remembered(); fresh {
		return m, err
	}
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m, err, fresh := c.remembered(); fresh { // somebody else has asked meanwhile
		return m, err
	}
	m, err := c.discover(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.failed = time.Now(), err
	if err == nil {
		if c.known != nil && c.known.Keys == m.Keys {
			m.keys = c.known.keys // with what they have fetched
		}
		c.known = m
	}
	if c.known != nil {
		return c.known, nil
	}
	return nil, err
}

// remembered returns what was last learned, and whether that is to be used.
func (c *Client) remembered() (*metadata, error, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	holds := metadataHolds
	if c.failed != nil {
		holds = metadataRetry
	}
	fresh := !c.at.IsZero() && time.Since(c.at) < holds
	if c.known != nil {
		return c.known, nil, fresh
	}
	return nil, c.failed, fresh
}

func (c *Client) discover(ctx context.Context) (*metadata, error) {
	ctx = oidc.ClientContext(ctx, c.http)
	p, err := oidc.NewProvider(ctx, c.cfg.URL)
	if mismatch, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return nil, errs.New(errs.Invalid, "the issuer %s calls itself %q", c.cfg.URL, cut(mismatch.Discovered)).
			With("the administrator puts that under credentials.issuers, if it is meant")
	}
	if err != nil {
		return nil, c.away("does not say what it offers", err)
	}
	m := &metadata{}
	if err := p.Claims(m); err != nil {
		return nil, errs.New(errs.Unavailable, "the issuer %s: what it says of itself cannot be read", c.cfg.Name)
	}
	for name, at := range map[string]string{"token_endpoint": m.Token, "jwks_uri": m.Keys, "device_authorization_endpoint": m.Device, "revocation_endpoint": m.Revocation} {
		needed := name == "token_endpoint" || name == "jwks_uri"
		if err := checkURL(name, at); err != nil && (needed || at != "") {
			return nil, errs.New(errs.Invalid, "the issuer %s says of itself: %w", c.cfg.Name, err)
		}
	}
	rare := &http.Client{Transport: &seldom{way: c.http.Transport}, Timeout: c.http.Timeout, CheckRedirect: stay}
	m.keys = oidc.NewRemoteKeySet(oidc.ClientContext(context.WithoutCancel(ctx), rare), m.Keys)
	return m, nil
}

// away is the error of an issuer that cannot be asked. What an answer says is not repeated: it may be anything.
func (c *Client) away(what string, err error) error {
	why := "its answer makes no sense"
	if reason, ok := network(err); ok {
		why = reason
	}
	return errs.New(errs.Unavailable, "the issuer %s %s: %s", c.cfg.Name, what, why)
}

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 1 << 20

// bounded cuts answers.
type bounded struct{ way http.RoundTripper }

// RoundTrip asks.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.way.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	return answer, nil
}

// errSeldom is why the keys were not fetched again.
var errSeldom = errors.New("its keys were fetched a moment ago")

// seldom lets through one request in a while, whatever tokens with keys unknown come.
type seldom struct {
	way http.RoundTripper

	mu   sync.Mutex
	last time.Time
}

// RoundTrip asks, or says that it was asked a moment ago.
func (s *seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	if !s.last.IsZero() && time.Since(s.last) < keysEvery {
		s.mu.Unlock()
		return nil, errSeldom
	}
	s.last = time.Now()
	s.mu.Unlock()
	return s.way.RoundTrip(r)
}
