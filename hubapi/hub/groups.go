package hub

import (
	"context"
	"net/http"

	"slipway/internal/errs"
)

// Group is a group of the Hub with its members.
type Group struct {
	Name  string   `json:"name"`
	Users []string `json:"users"`
}

// Groups lists the Hub's groups. The list is whole, or there is an error: a token that does not see who is in them is
// refused with Forbidden. The list of users would tell the same, but of those alone who have a server, or of everybody
// in many pages.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	const what = "list the Hub's groups"
	token, err := c.own(what)
	if err != nil {
		return nil, err
	}
	if err := c.Holds(ctx, what, "list:groups", "read:groups"); err != nil {
		return nil, err
	}
	k := call{method: http.MethodGet, path: "/groups", token: token, what: what, scope: "list:groups"}
	groups, err := list(ctx, c, k, func(g Group) string { return g.Name })
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if g.Name == "" || g.Users == nil {
			return nil, errs.New(errs.Forbidden, "%s: the Hub hides who is in them", what).With(grant("read:groups"))
		}
	}
	return groups, nil
}
