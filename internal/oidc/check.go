package oidc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// opaqueLife is how long an access token is taken to hold of which nobody says it.
const opaqueLife = 10 * time.Minute

// algorithms are those that a token may be signed by: with a public key, so that who can check one cannot make one.
func algorithms() []string {
	return []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512,
		oidc.EdDSA,
	}
}

// Want is what a checked answer must agree with.
type Want struct {
	Subject  string // whose it was before; empty: not known
	Audience string // whom it is for; empty: not asked for
}

// Facts are what a checked answer is.
type Facts struct {
	Subject string // empty: an access token that does not say, and no ID token
	// those of Config.Claims that it says; of what the tokens do not agree on, what the ID token says
	Claims            map[string]string
	Scopes, Audiences []string
	Expires           time.Time
}

// Check looks whether an answer holds what it should, and gives what it says. An error of kind Unavailable says that it
// could not be looked at now; any other that it is not to be used.
func (c *Client) Check(ctx context.Context, t Tokens, want Want) (Facts, error) {
	if err := c.plain(t.Access); err != nil {
		return Facts{}, err
	}
	m, err := c.metadata(ctx)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{Scopes: t.Scopes, Expires: t.Expires}
	if strings.Count(t.Access.Reveal(), ".") == 2 {
		if f, err = c.checkAccess(ctx, m, t, want); err != nil {
			return Facts{}, err
		}
	}
	if f.Expires.IsZero() {
		f.Expires = time.Now().Add(opaqueLife)
	}
	if !t.ID.Empty() {
		id, err := c.verify(ctx, m, "ID token", t.ID, c.cfg.ClientID)
		if err != nil {
			return Facts{}, err
		}
		if f.Subject != "" && f.Subject != id.Subject {
			return Facts{}, c.bad("access token", "it is another person's than the ID token that came with it")
		}
		f.Subject = id.Subject
		c.claim(id, &f)
	}
	if want.Subject != "" && f.Subject != "" && f.Subject != want.Subject {
		return Facts{}, errs.New(
			errs.Invalid,
			"the access token that the issuer %s gave is not to be used: it is of another person than before",
			c.cfg.Name,
		).With("log in as the same person, or remove the credential first: slipway credentials revoke " + c.cfg.Name)
	}
	return f, nil
}

// checkAccess checks an access token that is a JWT.
func (c *Client) checkAccess(ctx context.Context, m *metadata, t Tokens, want Want) (Facts, error) {
	token, err := c.verify(ctx, m, "access token", t.Access, "")
	if err != nil {
		return Facts{}, err
	}
	if want.Audience != "" && !slices.Contains(token.Audience, want.Audience) {
		return Facts{}, c.bad(
			"access token", "it is for "+cut(strings.Join(token.Audience, ", "))+" and not for "+want.Audience,
		)
	}
	var says struct {
		Scope any `json:"scope"`
	}
	_ = token.Claims(&says)
	f := Facts{Subject: token.Subject, Audiences: token.Audience, Scopes: t.Scopes, Expires: token.Expiry}
	if scope, ok := says.Scope.(string); ok {
		f.Scopes = strings.Fields(scope)
	}
	c.claim(token, &f)
	return f, nil
}

// claim takes what a token says of what callers have asked for. Only text is taken: of a list it would not be known
// which is meant.
func (c *Client) claim(t *oidc.IDToken, f *Facts) {
	if len(c.cfg.Claims) == 0 {
		return
	}
	says := map[string]any{}
	_ = t.Claims(&says)
	for _, name := range c.cfg.Claims {
		if text, ok := says[name].(string); ok && text != "" && len(text) <= maxClaim {
			if f.Claims == nil {
				f.Claims = map[string]string{}
			}
			f.Claims[name] = text
		}
	}
}

// maxClaim is how many bytes of a claim may be anybody's name.
const maxClaim = 1024

// verify checks a JWT: who signed it and how, that it holds now, and, where client is given, that it is for that
// client.
func (c *Client) verify(
	ctx context.Context, m *metadata, what string, token secret.Text, client string,
) (*oidc.IDToken, error) {
	if len(token.Reveal()) > maxToken {
		return nil, c.bad(what, "it is larger than any that could be used")
	}
	v := oidc.NewVerifier(
		c.cfg.URL, m.keys,
		&oidc.Config{ClientID: client, SkipClientIDCheck: client == "", SupportedSigningAlgs: algorithms()},
	)
	t, err := v.Verify(ctx, token.Reveal())
	if err == nil {
		return t, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if _, ok := network(err); ok || strings.Contains(err.Error(), "get keys failed") || strings.Contains(err.Error(), "decode keys") {
		return nil, c.away("does not give the keys that its tokens are signed with", err)
	}
	if late, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return nil, c.bad(what, "it ended on "+late.Expiry.UTC().Format(time.RFC3339)+"; is this host's clock right?")
	}
	return nil, c.bad(what, cut(strings.TrimPrefix(err.Error(), "oidc: ")))
}

// plain refuses an access token that fits into no header or file.
func (c *Client) plain(access secret.Text) error {
	text := access.Reveal()
	switch {
	case text == "":
		return c.bad("access token", "there is none in its answer")
	case len(text) > maxToken:
		return c.bad("access token", "it is larger than any that could be used")
	case strings.ContainsFunc(text, func(r rune) bool { return r < '!' || r > '~' }):
		return c.bad("access token", "it has characters that no token has")
	}
	return nil
}

func (c *Client) bad(what, why string) error {
	return errs.New(errs.Invalid, "the %s that the issuer %s gave is not to be used: %s", what, c.cfg.Name, why).
		With("tell your administrator, or the issuer's")
}
