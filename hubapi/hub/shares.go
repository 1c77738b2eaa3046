package hub

import (
	"context"
	"net/http"

	"slipway/internal/errs"
)

// Sharee is whom a server is shared with: a user or a group, exactly one of them.
type Sharee struct {
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
}

// Share is one grant on a server.
type Share struct {
	With   Sharee
	Scopes []string
}

// shareModel is a share as the Hub writes it.
type shareModel struct {
	Scopes []string  `json:"scopes"`
	User   *nameOnly `json:"user"`
	Group  *nameOnly `json:"group"`
}

type nameOnly struct {
	Name string `json:"name"`
}

func (s shareModel) share() Share {
	out := Share{Scopes: s.Scopes}
	if s.User != nil {
		out.With.User = s.User.Name
	}
	if s.Group != nil {
		out.With.Group = s.Group.Name
	}
	return out
}

// sharePath has the server's segment even where it is empty: without it the path is that of all the user's servers.
func sharePath(owner, server string) string {
	return "/shares/" + segment(owner) + "/" + segment(server)
}

// Share lets another user or a group use a server of owner's; no scopes: access to the server. It needs JupyterHub 5 or
// later.
func (c *Client) Share(ctx context.Context, owner, server string, with Sharee, scopes ...string) (Share, error) {
	k, err := c.sharing(http.MethodPost, owner, server, "share", with, scopes)
	if err != nil {
		return Share{}, err
	}
	var s shareModel
	if _, err := c.ask(ctx, k, &s); err != nil {
		return Share{}, err
	}
	return s.share(), nil
}

// Unshare takes scopes back; no scopes: all of them. Taking back what was never given is success.
func (c *Client) Unshare(ctx context.Context, owner, server string, with Sharee, scopes ...string) error {
	k, err := c.sharing(http.MethodPatch, owner, server, "unshare", with, scopes)
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, k, nil)
	return err
}

func (c *Client) sharing(method, owner, server, verb string, with Sharee, scopes []string) (call, error) {
	if (with.User == "") == (with.Group == "") {
		return call{}, errs.Bad("with", with.User+with.Group, "name a user or a group, and not both")
	}
	k, err := c.ofUser(owner, call{
		method: method, path: sharePath(owner, server), what: verb + " " + serverName(owner, server), scope: "shares",
	})
	k.body = struct {
		Sharee
		Scopes []string `json:"scopes,omitempty"`
	}{with, scopes}
	return k, err
}

// Shares lists with whom a server is shared.
func (c *Client) Shares(ctx context.Context, owner, server string) ([]Share, error) {
	k, err := c.ofUser(owner, call{
		method: http.MethodGet, path: sharePath(owner, server),
		what: "list the shares of " + serverName(owner, server), scope: "read:shares",
	})
	if err != nil {
		return nil, err
	}
	models, err := list(ctx, c, k, func(s shareModel) string { w := s.share().With; return w.User + "\x00" + w.Group })
	if err != nil {
		return nil, err
	}
	shares := make([]Share, 0, len(models))
	for _, m := range models {
		shares = append(shares, m.share())
	}
	return shares, nil
}
