package hubapi

import (
	"context"
	"net/http"
	"net/url"
)

// Whoami says who a caller is here, by what, and by which rule.
type Whoami struct {
	User     string    `json:"user"`
	Hub      string    `json:"hub"`
	Admin    bool      `json:"admin"`
	Session  string    `json:"session"` // the workload that the caller runs in; empty outside
	Person   Person    `json:"person"`
	Subjects []Subject `json:"subjects"`
	SSHKeys  []string  `json:"ssh_keys"` // fingerprints; none out of a session
}

// Person is a user on the service's host.
type Person struct {
	Realm     string      `json:"realm"`
	Principal string      `json:"principal"` // the one word for her
	Accounts  string      `json:"accounts"`  // where numbers are from: range, nss, hub or table
	Account   string      `json:"account"`   // the account's name there; empty: she has none of a name
	Login     string      `json:"login"`     // inside sessions
	UID       int         `json:"uid"`
	GID       int         `json:"gid"`
	Groups    []UserGroup `json:"groups"`
	Home      string      `json:"home"`    // inside sessions
	Trouble   string      `json:"trouble"` // why no session of hers would start; empty: nothing
	Remedy    string      `json:"remedy"`
}

// UserGroup is a group of a user's beside her first.
type UserGroup struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// Subject is whom a user stands for elsewhere.
type Subject struct {
	CredentialHolder
	Rule string `json:"rule"` // of the site's, by which it is hers; empty: she was the first to bring it
}

// Number is a number that a user has on the host.
type Number struct {
	User string `json:"user"` // of another realm than the site's: @realm/name
	UID  int    `json:"uid"`
}

// Numbers are those of all users.
type Numbers struct {
	Accounts []Number `json:"accounts"`
}

// Whoami says who the caller is.
func (c *Client) Whoami(ctx context.Context) (Whoami, error) {
	return fetch[Whoami](ctx, c, http.MethodGet, "/whoami", nil)
}

// Accounts lists who has which number; for administrators.
func (c *Client) Accounts(ctx context.Context) (Numbers, error) {
	return fetch[Numbers](ctx, c, http.MethodGet, "/accounts", nil)
}

// ReleaseAccount forgets a user's number; for administrators.
func (c *Client) ReleaseAccount(ctx context.Context, user string) (Number, error) {
	return fetch[Number](ctx, c, http.MethodDelete, "/accounts/"+url.PathEscape(user), nil)
}
