package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"slipway/internal/identity"
)

// Whose numbers sessions and jobs have.
const (
	AccountsRange = "range" // one of users.uids, given out for ever
	AccountsNSS   = "nss"   // those of this host's account
	AccountsHub   = "hub"   // those in the Hub's auth_state
	AccountsTable = "table" // those of a file
)

// HubAccount names where a user's auth_state has the numbers of her account.
type HubAccount struct {
	UID  string `yaml:"uid"`  // keys with dots between them, such as ldap.uidNumber
	GID  string `yaml:"gid"`  // empty: users.gid
	Name string `yaml:"name"` // empty: she has her own
}

// checkUsers looks at where numbers come from, and reads the table.
func (c Config) checkUsers(p *problems) {
	u := c.Users
	sources := []string{AccountsRange, AccountsNSS, AccountsHub, AccountsTable}
	if !slices.Contains(sources, u.Accounts) {
		p.add("users.accounts", u.Accounts, strings.Join(sources, ", "))
	}
	switch {
	case u.Accounts != AccountsTable && u.Table != "":
		p.add("users.table", u.Table, "nothing, or users.accounts: table")
	case u.Accounts == AccountsTable && !filepath.IsAbs(u.Table):
		p.add("users.table", u.Table, "the absolute path of a file with a line `user uid gid` for each user")
	case u.Accounts == AccountsTable:
		if _, err := os.Stat(u.Table); err != nil {
			p.file("users.table", u.Table, "a file that can be read")
		} else if _, err := identity.NewTable(u.Table); err != nil {
			*p = append(*p, err)
		}
	}
	c.checkHubAccount(p)
}

func (c Config) checkHubAccount(p *problems) {
	h := c.Users.HubAccount
	for field, key := range map[string]string{"uid": h.UID, "gid": h.GID, "name": h.Name} {
		switch {
		case c.Users.Accounts != AccountsHub && key != "":
			p.add("users.hub_account."+field, key, "nothing, or users.accounts: hub")
		case strings.HasPrefix(key, ".") || strings.HasSuffix(key, ".") || strings.Contains(key, ".."):
			p.add("users.hub_account."+field, key, "keys with dots between them, such as uid or ldap.uidNumber")
		}
	}
	if c.Users.Accounts != AccountsHub {
		return
	}
	if h.UID == "" {
		p.add(
			"users.hub_account.uid", "",
			"where a user's auth_state has the number of her account, such as ldap.uidNumber",
		)
	}
	if !slices.ContainsFunc(c.Hubs, func(h Hub) bool { return h.TokenFile != "" }) {
		p.add("users.accounts", AccountsHub, "another source, or a hub with a token_file, which reads auth_state")
	}
}
