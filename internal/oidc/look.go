package oidc

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"slipway/internal/errs"
)

// Look asks the issuer who it is, past all that is remembered of it, and gives the time that it has.
func (c *Client) Look(ctx context.Context) (time.Time, error) {
	req, err := http.NewRequestWithContext(
		ctx, http.MethodGet, strings.TrimSuffix(c.cfg.URL, "/")+"/.well-known/openid-configuration", nil,
	)
	if err != nil {
		return time.Time{}, err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return time.Time{}, c.away("does not answer", err)
	}
	defer answer.Body.Close()
	var said struct {
		Issuer string `json:"issuer"`
	}
	if answer.StatusCode != http.StatusOK || json.NewDecoder(answer.Body).Decode(&said) != nil {
		return time.Time{}, errs.New(
			errs.Unavailable, "the issuer %s does not say what it offers: status %d", c.cfg.Name, answer.StatusCode,
		)
	}
	if said.Issuer != c.cfg.URL {
		return time.Time{}, errs.New(errs.Invalid, "the issuer %s calls itself %q", c.cfg.URL, cut(said.Issuer))
	}
	at, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return time.Now(), nil // it does not say
	}
	return at, nil
}
