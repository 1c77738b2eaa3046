package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway/hubapi/hub"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/identity"
	"slipway/internal/service/clients"
)

// accountChecks look whether those who know users' numbers answer, and whether the rules can be used.
func accountChecks(cfg config.Config) []check {
	var all []check
	switch cfg.Users.Accounts {
	case config.AccountsRange:
		all = append(all, check{"user numbers", true, func(ctx context.Context) error {
			accounts, err := identity.NewNSS("").Holders(ctx, nil)
			if err != nil {
				return err
			}
			return rangeFree(cfg.Users.UIDs, accounts)
		}})
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

// rangeFree returns an error where accounts of this host have numbers that users get.
func rangeFree(uids config.Range, accounts map[int]string) error {
	var within []string
	for _, id := range slices.Sorted(maps.Keys(accounts)) {
		if id >= uids.First && id <= uids.Last {
			within = append(within, fmt.Sprintf("%s has %d", accounts[id], id))
		}
	}
	if len(within) == 0 {
		return nil
	}
	most := min(len(within), 3)
	text := strings.Join(within[:most], ", ")
	if more := len(within) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return errs.New(errs.Conflict, "accounts of this host are in users.uids %s: %s", uids, text).
		With("choose a range that no account has. The service gives nobody such a number any more, but a user may have " +
			"had it before the account: `slipway accounts` shows it, and then both have the same rights")
}

// nssAnswers asks for an account that every host has.
func nssAnswers(ctx context.Context) error {
	if _, err := identity.NewNSS("").Account(ctx, "root"); err != nil {
		return err
	}
	return nil
}
