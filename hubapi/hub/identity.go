package hub

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Identity is a user as the Hub knows the owner of a token.
type Identity struct {
	Name   string
	Scopes []string
	// of the browser in which the token was made, as the Hub's cookie jupyterhub-session-id has it; empty: in none
	Session string
}

// owner is what GET /user answers of the owner of the token.
type owner struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Scopes  []string `json:"scopes"`
	Session string   `json:"session_id"`
}

// Identify finds the user of a Hub token that gives access to this service: Unauthorized when the Hub does not know the
// token, Forbidden when the token is not for this service, Unavailable when the Hub cannot be asked.
func (c *Client) Identify(ctx context.Context, token string) (Identity, error) {
	return c.cache.get(ctx, sha256.Sum256([]byte(token)), func(ctx context.Context) (Identity, error) {
		o, err := c.ownerOf(ctx, secret.New(token))
		switch {
		case errs.Is(err, errs.Unauthorized):
			if err := c.canVouch(ctx); err != nil {
				return Identity{}, err
			}
			return Identity{}, errs.New(errs.Unauthorized, "%w", err).With("make a new one on the Hub's token page")
		case err != nil:
			return Identity{}, err
		default:
			return c.judge(o)
		}
	})
}

// ownerOf asks whose a token is: Unauthorized when the Hub does not know it, Unavailable when it cannot be asked.
func (c *Client) ownerOf(ctx context.Context, token secret.Text) (owner, error) {
	var o owner
	_, err := c.ask(
		ctx, call{method: http.MethodGet, path: "/user", token: token, what: "ask the Hub who is calling"}, &o,
	)
	switch errs.KindOf(err) {
	case errs.Unauthorized, errs.Forbidden:
		return owner{}, errs.New(errs.Unauthorized, "the Hub does not know the token")
	default:
		return o, unsure(err)
	}
}

// unsure makes every other fault one of the Hub: a token that could not be judged is not refused.
func unsure(err error) error {
	if err == nil {
		return nil
	}
	return &errs.Error{
		Kind: errs.Unavailable, Message: "the Hub, which knows who is calling, does not answer",
		Remedy: "try again in a moment", Err: err,
	}
}

// judge admits users whose token holds the scope. A service's token is nobody's: its name may be a user's, too.
func (c *Client) judge(o owner) (Identity, error) {
	if o.Kind != "user" || o.Name == "" {
		return Identity{}, errs.New(errs.Forbidden, "the token belongs to no user of the Hub").
			With("use a user's own token")
	}
	scope := "access:services!service=" + c.service
	if !slices.Contains(o.Scopes, scope) && !slices.Contains(o.Scopes, "access:services") {
		return Identity{}, errs.New(errs.Forbidden, "the token of %s lacks the scope %s", o.Name, scope).
			With("make a token on the Hub's token page; if it lacks the scope, too, the administrator grants it to your role")
	}
	return Identity{Name: o.Name, Scopes: o.Scopes, Session: o.Session}, nil
}
