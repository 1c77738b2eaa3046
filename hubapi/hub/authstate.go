package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// AuthState returns what a user's auth_state has under a key, with dots between the keys of what lies deeper; empty
// when there is none: the Hub keeps no auth_state, has none of this user, or another one. Only this one text of it is
// read.
func (c *Client) AuthState(ctx context.Context, user, key string) (secret.Text, error) {
	texts, err := c.AuthStates(ctx, user, key)
	if err != nil {
		return secret.Text{}, err
	}
	return texts[0], nil
}

// AuthStates returns likewise what it has under several keys, in their order. A number is as it is written there.
func (c *Client) AuthStates(ctx context.Context, user string, keys ...string) ([]secret.Text, error) {
	what := "read the auth_state of " + user
	k, err := c.ofUser(user, call{method: http.MethodGet, path: userPath(user), what: what, scope: "admin:auth_state"})
	if err != nil {
		return nil, err
	}
	var answer struct {
		State json.RawMessage `json:"auth_state"`
	}
	if _, err := c.ask(ctx, k, &answer); err != nil {
		return nil, err
	}
	if answer.State == nil {
		return nil, errs.New(errs.Forbidden, "%s: the Hub hides it", what).With(grant("admin:auth_state"))
	}
	var state map[string]any
	d := json.NewDecoder(bytes.NewReader(answer.State))
	d.UseNumber()
	if d.Decode(&state) != nil { // its words may hold a part of it
		return nil, errs.New(errs.Unavailable, "%s: it is not what the Hub keeps", what)
	}
	var texts []secret.Text
	for _, key := range keys {
		texts = append(texts, deep(state, key))
	}
	return texts, nil
}

// deep returns the text under a key; empty when there is none, or something else.
func deep(state map[string]any, key string) secret.Text {
	switch text := state[key].(type) {
	case string:
		return secret.New(text)
	case json.Number:
		return secret.New(text.String())
	}
	first, rest, more := strings.Cut(key, ".")
	inner, ok := state[first].(map[string]any)
	if !more || !ok {
		return secret.Text{}
	}
	return deep(inner, rest)
}
