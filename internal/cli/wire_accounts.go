//go:build linux

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/internal/config"
	"slipway/internal/errs"
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

// accountsHold is for how long an answer is good of who must be asked: a start asks several times.
const accountsHold = 20 * time.Second

// looker gives where users' numbers are; nil: they are given out here.
func (s *service) looker() (identity.Look, error) {
	users := s.cfg.Users
	switch users.Accounts {
	case config.AccountsNSS:
		return identity.Remembered(named(s.rules, identity.NewNSS("").Account), accountsHold), nil
	case config.AccountsTable:
		table, err := identity.NewTable(users.Table)
		if err != nil {
			return nil, err
		}
		return named(s.rules, table.Account), nil
	case config.AccountsHub:
		return identity.Remembered(s.hubsNumbers, accountsHold), nil
	}
	return nil, nil
}

// named looks for the account that the rules give a user. Where an account's home is, the site says for all.
func named(rules *identity.Rules, account func(ctx context.Context, name string) (identity.Numbers, error)) identity.Look {
	return func(ctx context.Context, realm, user string) (identity.Numbers, error) {
		name, err := rules.AccountName(realm, user)
		if err != nil {
			return identity.Numbers{}, err
		}
		return account(ctx, name)
	}
}

// hubsNumbers gives those in a user's auth_state. Users of one realm may have several Hubs: the first that has some counts, and where one
// cannot be asked, it may be that one.
func (s *service) hubsNumbers(ctx context.Context, realm, user string) (identity.Numbers, error) {
	keys := s.cfg.Users.HubAccount
	var away error
	for _, p := range s.hubs {
		if s.realms[p.cfg.Name] != realm || p.cfg.TokenFile == "" {
			continue
		}
		state, err := p.client.AuthStates(ctx, user, keys.UID, cmp.Or(keys.GID, keys.UID), cmp.Or(keys.Name, keys.UID))
		switch {
		case errs.Is(err, errs.NotFound):
		case err != nil:
			away = errors.Join(away, err)
		case state[0].Empty():
		case away != nil:
			return identity.Numbers{}, notNow(away)
		default:
			return s.numbersIn(user, state[0].Reveal(), state[1].Reveal(), state[2].Reveal())
		}
	}
	if away != nil {
		return identity.Numbers{}, notNow(away)
	}
	return identity.Numbers{}, errs.New(errs.Missing, "account: the Hub's auth_state of %.80q has nothing under %s", user, keys.UID).
		With("log in at the Hub once more; if that does not help, the administrator looks at users.hub_account, and whether the Hub keeps auth_state")
}

// notNow is the error of a Hub that cannot be asked who somebody is.
func notNow(err error) error {
	return errs.New(errs.Unavailable, "account: who you are on this host is the Hub's to say, and it does not: %s", errs.Brief(err)).
		With("try again in a moment; if this lasts, tell your administrator")
}

func (s *service) numbersIn(user, uid, gid, name string) (n identity.Numbers, err error) {
	keys := s.cfg.Users.HubAccount
	n.Login, n.GID = user, s.cfg.Users.GID
	if keys.Name != "" {
		if n.Login = name; name == "" {
			return n, errs.New(errs.Missing, "account: the Hub's auth_state of %.80q has no name under %s", user, keys.Name).With("the administrator looks at users.hub_account")
		}
	}
	if n.UID, err = identity.Number("uid", uid); err == nil && keys.GID != "" {
		n.GID, err = identity.Number("gid", gid)
	}
	if err != nil {
		return n, fmt.Errorf("the Hub's auth_state of %.80q: %w", user, err)
	}
	return n, nil
}
