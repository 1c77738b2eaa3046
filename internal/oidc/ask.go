package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

const (
	grantRefresh  = "refresh_token"
	grantDevice   = "urn:ietf:params:oauth:grant-type:device_code"
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccess    = "urn:ietf:params:oauth:token-type:access_token"
	maxToken      = 32 << 10 // bytes; what is larger goes through no header
)

// Refusal is what an issuer answers to a request that it does not grant.
type Refusal struct{ Code, Description string }

// Error returns the code and what the issuer says to it.
func (r *Refusal) Error() string {
	return strings.TrimSuffix(r.Code+": "+r.Description, ": ")
}

// Refused reports whether err says that the issuer does not take the refresh token, now or ever.
func Refused(err error) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.Code == "invalid_grant"
}

// Tokens are an issuer's answer, not checked yet.
type Tokens struct {
	Access  secret.Text
	Refresh secret.Text // empty: the one that was sent goes on
	ID      secret.Text // empty: there is none
	Scopes  []string    // nil: as asked for
	Expires time.Time   // of the access token; zero: not told
	Until   time.Time   // of the refresh token; zero: not told
}

// Refresh has a refresh token give new tokens.
func (c *Client) Refresh(ctx context.Context, refresh secret.Text) (Tokens, error) {
	return c.token(ctx, url.Values{"grant_type": {grantRefresh}, "refresh_token": {refresh.Reveal()}})
}

// Exchange has an access token give one that is narrower (RFC 8693).
func (c *Client) Exchange(ctx context.Context, access secret.Text, audience string, scopes []string) (Tokens, error) {
	form := url.Values{
		"grant_type": {grantExchange}, "subject_token": {access.Reveal()}, "subject_token_type": {typeAccess},
		"requested_token_type": {typeAccess},
	}
	if audience != "" {
		form.Set("audience", audience)
	}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	return c.token(ctx, form)
}

// Revoke has the issuer forget a refresh token (RFC 7009).
func (c *Client) Revoke(ctx context.Context, refresh secret.Text) error {
	m, err := c.metadata(ctx)
	if err != nil {
		return err
	}
	if m.Revocation == "" {
		return errs.New(errs.Missing, "the issuer %s takes nothing back", c.cfg.Name).
			With("take it back at the issuer's own page")
	}
	return c.post(ctx, m, m.Revocation, url.Values{"token": {refresh.Reveal()}, "token_type_hint": {grantRefresh}}, nil)
}

// seconds is a number that some issuers write as a text.
type seconds int64

// UnmarshalJSON reads a number or a text.
func (s *seconds) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil || n < 0 || n > 1e9 {
		n = 0
	}
	*s = seconds(n)
	return nil
}

// from returns the moment so many seconds after t, zero for none.
func (s seconds) from(t time.Time) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return t.Add(time.Duration(s) * time.Second)
}

func (c *Client) token(ctx context.Context, form url.Values) (Tokens, error) {
	m, err := c.metadata(ctx)
	if err != nil {
		return Tokens{}, err
	}
	return c.tokenAt(ctx, m, form)
}

func (c *Client) tokenAt(ctx context.Context, m *metadata, form url.Values) (Tokens, error) {
	var answer struct {
		Access    string  `json:"access_token"`
		Refresh   string  `json:"refresh_token"`
		ID        string  `json:"id_token"`
		Scope     string  `json:"scope"`
		Expires   seconds `json:"expires_in"`
		RefreshIn seconds `json:"refresh_expires_in"` // Keycloak's
	}
	begun := time.Now()
	if err := c.post(ctx, m, m.Token, form, &answer); err != nil {
		return Tokens{}, err
	}
	return Tokens{
		Access: secret.New(answer.Access), Refresh: secret.New(answer.Refresh), ID: secret.New(answer.ID),
		Scopes:  strings.Fields(answer.Scope),
		Expires: answer.Expires.from(begun), Until: answer.RefreshIn.from(begun),
	}, nil
}

// post sends a form, once, and reads the answer. The issuer knows Slipway by what it says it takes.
func (c *Client) post(ctx context.Context, m *metadata, at string, form url.Values, into any) error {
	basic := !c.cfg.ClientSecret.Empty() && (len(m.Methods) == 0 || slices.Contains(m.Methods, "client_secret_basic"))
	if !basic {
		form.Set("client_id", c.cfg.ClientID)
		if !c.cfg.ClientSecret.Empty() {
			form.Set("client_secret", c.cfg.ClientSecret.Reveal())
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return errs.New(errs.Unavailable, "ask the issuer %s", c.cfg.Name)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if basic {
		r.SetBasicAuth(url.QueryEscape(c.cfg.ClientID), url.QueryEscape(c.cfg.ClientSecret.Reveal()))
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return c.away("does not answer", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return c.refusal(answer, form)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return c.away("does not answer as it should", err)
	}
	return nil
}

// refusal is the error of an answer that grants nothing to a form.
func (c *Client) refusal(answer *http.Response, form url.Values) error {
	var said struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	err := json.NewDecoder(answer.Body).Decode(&said)
	status := answer.StatusCode
	busy := status >= 500 || status == http.StatusTooManyRequests || said.Code == "temporarily_unavailable" ||
		said.Code == "server_error"
	if busy || err != nil || said.Code == "" || c.telling(said.Code, form) {
		return errs.New(errs.Unavailable, "the issuer %s answers with HTTP status %d", c.cfg.Name, status)
	}
	if c.telling(said.Description, form) {
		said.Description = ""
	}
	r := &Refusal{Code: cut(said.Code), Description: cut(said.Description)}
	kind := errs.Invalid
	if r.Code == "invalid_grant" {
		kind = errs.Forbidden
	}
	return errs.New(kind, "the issuer %s refuses: %w", c.cfg.Name, r)
}

// network returns the reason, in words, of an issuer that could not be reached. URLs are left out.
func network(err error) (string, bool) {
	if errors.Is(err, errSeldom) {
		return errSeldom.Error(), true
	}
	failed, ok := errors.AsType[*url.Error](err)
	if !ok {
		timeout, isNet := errors.AsType[net.Error](err)
		return "it took too long", isNet && timeout.Timeout()
	}
	if failed.Timeout() {
		return "it took too long", true
	}
	return cut(fmt.Sprint(failed.Err)), true
}

// cut makes what an issuer says fit for a line.
func cut(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}
