package doctor

import (
	"context"
	"fmt"

	"slipway/hubapi/hub"
	"slipway/internal/config"
	"slipway/internal/identity"
	"slipway/internal/service/clients"
)

// accountChecks look whether those who know users' numbers answer, and whether the rules can be used.
func accountChecks(cfg config.Config) []check {
	var all []check
	switch cfg.Users.Accounts {
	case config.AccountsNSS:
		all = append(all, check{"accounts of this host", false, nssAnswers})
	case config.AccountsTable:
		all = append(all, check{"table of accounts " + cfg.Users.Table, false, func(context.Context) error {
			table, err := identity.NewTable(cfg.Users.Table)
			if err != nil {
				return err
			}
			return goodWord(fmt.Sprintf("%d users", table.Len()))
		}})
	case config.AccountsHub:
		for _, h := range cfg.Hubs {
			if h.TokenFile == "" {
				continue
			}
			all = append(all, check{"auth_state at hub " + h.Name, true, func(ctx context.Context) error {
				c, err := clients.HubConfig(h)
				if err != nil {
					return err
				}
				return hub.New(c).Holds(ctx, "read the numbers of users' accounts", "admin:auth_state")
			}})
		}
	}
	return all
}

// nssAnswers asks for an account that every host has.
func nssAnswers(ctx context.Context) error {
	if _, err := identity.NewNSS("").Account(ctx, "root"); err != nil {
		return err
	}
	return nil
}
