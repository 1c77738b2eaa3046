package hub

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// User is a user of the Hub with her servers that are active, by name; the default server's name is empty.
type User struct {
	Name    string            `json:"name"`
	Servers map[string]Server `json:"servers"`
}

// Users lists the users who have an active server, with all servers that run or are being started, stopped or checked.
// The Hub writes a server's record before it asks its Spawner to start, so one that is only just being started is in
// the list as well (source: UserListAPIHandler and User.spawn). The list is whole, or there is an error: a token that
// sees a part of the users or of their servers is refused with Forbidden, because what it does not see would be taken
// for stopped.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	const what = "list the Hub's active servers"
	token, err := c.own(what)
	if err != nil {
		return nil, err
	}
	if err := c.Holds(ctx, what, "list:users", "read:servers"); err != nil {
		return nil, err
	}
	k := call{
		method: http.MethodGet, path: "/users", token: token, what: what, scope: "list:users",
		query: url.Values{"state": {"active"}, "include_stopped_servers": {"0"}},
	}
	users, err := list(ctx, c, k, func(u User) string { return u.Name })
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if u.Name == "" || u.Servers == nil {
			return nil, errs.New(errs.Forbidden, "%s: the Hub hides users' servers", what).With(grant("read:servers"))
		}
	}
	return users, nil
}

// Holds checks that the service's token holds scopes for all users, without a filter; what names for what they are
// needed.
func (c *Client) Holds(ctx context.Context, what string, scopes ...string) error {
	token, err := c.own(what)
	if err != nil {
		return err
	}
	o, err := c.ownerOf(ctx, token)
	switch {
	case errs.Is(err, errs.Unauthorized):
		return errs.New(errs.Unauthorized, "%s: %w", what, err).
			With("most often the Hub has not loaded jupyterhub_slipway.py: its log must say `Using Spawner: " +
				"slipway.spawner.SlipwaySpawner`, and the Hub's user must be able to read that file. Else its token is " +
				"another than that of token_file")
	case err != nil:
		return err
	}
	for _, scope := range scopes {
		if !slices.Contains(o.Scopes, scope) {
			return errs.New(
				errs.Forbidden, "%s: the token of %s %s lacks the scope %s for all users", what, o.Kind, o.Name, scope,
			).With(fmt.Sprintf("give the service a role with the scopes %q in the Hub's load_roles", scopes))
		}
	}
	return nil
}

// Knows says whether the Hub has a user of this name. A Hub answers alike of who is not there and of whom the token may
// not see, and what stands in its place may answer so too: that it has not is said only where the Hub says that the
// token sees the names of all users.
func (c *Client) Knows(ctx context.Context, name string) (bool, error) {
	const scope = "read:users:name" // of those that the Hub tells; broader ones have it in them
	k, err := c.ofUser(
		name, call{method: http.MethodGet, path: userPath(name), what: "look for user " + name, scope: scope},
	)
	if err != nil {
		return false, err
	}
	if _, err = c.ask(ctx, k, nil); !errs.Is(err, errs.NotFound) {
		return err == nil, err
	}
	return false, c.Holds(ctx, k.what, scope)
}

// CreateUsers makes users. Those that exist stay as they are.
func (c *Client) CreateUsers(ctx context.Context, names ...string) error {
	k, err := c.owned(call{method: http.MethodPost, path: "/users", what: "create users", scope: "admin:users"})
	if err != nil {
		return err
	}
	k.body, k.time = map[string]any{"usernames": names}, slowTime
	if _, err = c.ask(ctx, k, nil); errs.Is(err, errs.Conflict) {
		return nil
	}
	return err
}

// DeleteUser deletes a user. One that is not there is success.
func (c *Client) DeleteUser(ctx context.Context, name string) error {
	k, err := c.ofUser(
		name, call{method: http.MethodDelete, path: userPath(name), what: "delete user " + name, scope: "delete:users"},
	)
	if err != nil {
		return err
	}
	k.time = slowTime // it stops her servers first
	if _, err = c.ask(ctx, k, nil); errs.Is(err, errs.NotFound) {
		return nil
	}
	return err
}

// TokenRequest is what a new token of a user is to be.
type TokenRequest struct {
	Note    string
	Expires time.Duration // zero: as the Hub has it, which may be never
	Scopes  []string      // none: the user's own
}

// CreateToken makes an API token for a user.
func (c *Client) CreateToken(ctx context.Context, user string, r TokenRequest) (secret.Text, error) {
	what := "make a token for " + user
	k, err := c.ofUser(user, call{method: http.MethodPost, path: userPath(user, "tokens"), what: what, scope: "tokens"})
	if err != nil {
		return secret.Text{}, err
	}
	body := map[string]any{"note": r.Note}
	if r.Expires > 0 {
		body["expires_in"] = int(r.Expires.Seconds())
	}
	if len(r.Scopes) > 0 {
		body["scopes"] = r.Scopes
	}
	k.body, k.careful = body, true
	var made struct {
		Token string `json:"token"`
	}
	if _, err := c.ask(ctx, k, &made); err != nil {
		return secret.Text{}, err
	}
	if made.Token == "" {
		return secret.Text{}, errs.New(errs.Unavailable, "%s: the Hub's answer has none in it", what)
	}
	return secret.New(made.Token), nil
}

// owned puts the service's token into k.
func (c *Client) owned(k call) (call, error) {
	token, err := c.own(k.what)
	k.token = token
	return k, err
}

// ofUser does so for a call about one user: an empty name would be another path of the API.
func (c *Client) ofUser(name string, k call) (call, error) {
	if name == "" {
		return k, errs.Bad("user", name, "name a user of the Hub")
	}
	return c.owned(k)
}
