//go:build linux

package cli

import (
	"slipway/internal/identity"
	"slipway/spawner"
)

// engineAccount is an account as the engine has it.
func engineAccount(a identity.Account) spawner.Account {
	out := spawner.Account{UID: a.UID, GID: a.GID, Login: a.Login, HomeDir: a.HomeDir, Home: a.Home}
	for _, g := range a.Groups {
		out.Groups = append(out.Groups, spawner.Group(g))
	}
	return out
}
