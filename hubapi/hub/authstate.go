package hub

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// AuthState gives what a user's auth_state has under a key, with dots between the keys of what lies deeper; empty when there is none: the
// Hub keeps no auth_state, has none of this user, or another one. Only this one text of it is read.
func (c *Client) AuthState(ctx context.Context, user, key string) (secret.Text, error) {
	what := "read the auth_state of " + user
	k, err := c.ofUser(user, call{method: http.MethodGet, path: userPath(user), what: what, scope: "admin:auth_state"})
	if err != nil {
		return secret.Text{}, err
	}
	var answer struct {
		State json.RawMessage `json:"auth_state"`
	}
	if _, err := c.ask(ctx, k, &answer); err != nil {
		return secret.Text{}, err
	}
	if answer.State == nil {
		return secret.Text{}, errs.New(errs.Forbidden, "%s: the Hub hides it", what).With(grant("admin:auth_state"))
	}
	var state map[string]any
	if json.Unmarshal(answer.State, &state) != nil { // its words may hold a part of it
		return secret.Text{}, errs.New(errs.Unavailable, "%s: it is not what the Hub keeps", what)
	}
	return deep(state, key), nil
}

// deep gives the text under a key; empty when there is none, or something else.
func deep(state map[string]any, key string) secret.Text {
	if text, ok := state[key].(string); ok {
		return secret.New(text)
	}
	first, rest, more := strings.Cut(key, ".")
	inner, ok := state[first].(map[string]any)
	if !more || !ok {
		return secret.Text{}
	}
	return deep(inner, rest)
}
