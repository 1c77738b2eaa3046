package oidc

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Device is a login that waits for its user (RFC 8628).
type Device struct {
	URL     string // for the user; it may hold the code already
	Code    string
	Expires time.Time

	secret   secret.Text
	interval time.Duration
}

const (
	usualInterval = 5 * time.Second
	usualLife     = 10 * time.Minute
	longestLife   = time.Hour
)

// BeginDevice begins a login.
func (c *Client) BeginDevice(ctx context.Context) (Device, error) {
	m, err := c.metadata(ctx)
	if err != nil {
		return Device{}, err
	}
	if m.Device == "" {
		return Device{}, errs.New(errs.Missing, "the issuer %s offers no login by a code", c.cfg.Name).
			With("give a refresh token")
	}
	var answer struct {
		Secret   string  `json:"device_code"`
		Code     string  `json:"user_code"`
		URL      string  `json:"verification_uri"`
		Complete string  `json:"verification_uri_complete"`
		Expires  seconds `json:"expires_in"`
		Interval seconds `json:"interval"`
	}
	if err := c.post(ctx, m, m.Device, url.Values{"scope": {strings.Join(c.cfg.Scopes, " ")}}, &answer); err != nil {
		return Device{}, err
	}
	at := answer.Complete
	if at == "" {
		at = answer.URL
	}
	if err := checkURL("verification_uri", at); err != nil || answer.Secret == "" || answer.Code == "" {
		return Device{}, errs.New(
			errs.Unavailable, "the issuer %s does not answer as it should to a login by a code", c.cfg.Name,
		)
	}
	d := Device{
		URL: at, Code: cut(answer.Code), secret: secret.New(answer.Secret),
		interval: time.Duration(answer.Interval) * time.Second,
	}
	if d.interval <= 0 {
		d.interval = usualInterval
	}
	life := time.Duration(answer.Expires) * time.Second
	if life <= 0 {
		life = usualLife
	}
	d.Expires = time.Now().Add(min(life, longestLife))
	return d, nil
}

// AwaitDevice asks until the user has decided or the login has expired. When ctx ends first, another call goes on.
func (c *Client) AwaitDevice(ctx context.Context, d Device) (Tokens, error) {
	interval := d.interval
	for {
		if !clock.Sleep(ctx, interval) {
			return Tokens{}, ctx.Err()
		}
		if time.Now().After(d.Expires) {
			return Tokens{}, errs.New(errs.Conflict, "the login was not confirmed in time").With("begin another")
		}
		// What is granted is given once: the answer is waited for.
		t, err := c.token(
			context.WithoutCancel(ctx), url.Values{"grant_type": {grantDevice}, "device_code": {d.secret.Reveal()}},
		)
		wait, err := patient(err, interval)
		if wait == 0 {
			return t, err
		}
		interval = wait
	}
}

// patient says how long to wait before asking again after err; zero: not at all.
func patient(err error, interval time.Duration) (time.Duration, error) {
	r, refused := errors.AsType[*Refusal](err)
	switch {
	case err == nil:
		return 0, nil
	case errs.Is(err, errs.Unavailable):
		return min(2*interval, time.Minute), nil
	case refused && r.Code == "authorization_pending":
		return interval, nil
	case refused && r.Code == "slow_down":
		return interval + 5*time.Second, nil
	case refused && r.Code == "access_denied":
		return 0, errs.New(errs.Forbidden, "the login was refused: %w", r)
	case refused && r.Code == "expired_token":
		return 0, errs.New(errs.Conflict, "the login was not confirmed in time").With("begin another")
	}
	return 0, err
}
