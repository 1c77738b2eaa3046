package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/hubapi"
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

// looker returns where users' numbers are; nil: they are given out here.
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
func named(
	rules *identity.Rules, account func(ctx context.Context, name string) (identity.Numbers, error),
) identity.Look {
	return func(ctx context.Context, realm, user string) (identity.Numbers, error) {
		name, err := rules.AccountName(realm, user)
		if err != nil {
			return identity.Numbers{}, err
		}
		return account(ctx, name)
	}
}

// hubsNumbers returns those in a user's auth_state. Users of one realm may have several Hubs: the first that has some
// counts, and where one cannot be asked, it may be that one.
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
	return identity.Numbers{}, errs.New(
		errs.Missing, "account: the Hub's auth_state of %.80q has nothing under %s", user, keys.UID,
	).
		With("log in at the Hub once more; if that does not help, the administrator looks at users.hub_account, and whether the Hub keeps auth_state")
}

// notNow is the error of a Hub that cannot be asked who somebody is.
func notNow(err error) error {
	return errs.New(
		errs.Unavailable, "account: who you are on this host is the Hub's to say, and it does not: %s", errs.Brief(err),
	).
		With("try again in a moment; if this lasts, tell your administrator")
}

func (s *service) numbersIn(user, uid, gid, name string) (n identity.Numbers, err error) {
	keys := s.cfg.Users.HubAccount
	n.Login, n.GID = user, s.cfg.Users.GID
	if keys.Name != "" {
		if n.Login = name; name == "" {
			return n, errs.New(
				errs.Missing, "account: the Hub's auth_state of %.80q has no name under %s", user, keys.Name,
			).With("the administrator looks at users.hub_account")
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

// people say who users are, for the API.
type people struct{ *service }

// UID returns the number that a hub's user has here.
func (p people) UID(ctx context.Context, hub string, user spawner.User) (int, bool) {
	return p.accounts.UID(ctx, p.principal(hub, user))
}

// Person says who a hub's user is, or why no session of hers would start.
func (p people) Person(ctx context.Context, hub string, user spawner.User) hubapi.Person {
	out := hubapi.Person{
		Realm: p.realms[hub], Principal: p.principal(hub, user), Accounts: p.cfg.Users.Accounts,
		Groups: []hubapi.UserGroup{},
	}
	if named := out.Accounts == config.AccountsNSS || out.Accounts == config.AccountsTable; named {
		out.Account, _ = p.rules.AccountName(out.Realm, string(user)) // that she has none is the trouble
	}
	a, err := p.account(ctx, hub, user)
	if err != nil {
		out.Trouble = errs.Brief(err)
		if e, ok := errors.AsType[*errs.Error](err); ok {
			out.Remedy = e.Remedy
		}
		return out
	}
	out.Login, out.UID, out.GID, out.Home = a.Login, a.UID, a.GID, a.Home
	for _, g := range a.Groups {
		out.Groups = append(out.Groups, hubapi.UserGroup(g))
	}
	return out
}

// Numbers lists who has which number.
func (p people) Numbers(ctx context.Context) ([]hubapi.Number, error) {
	bound, err := p.accounts.Bound(ctx)
	var list []hubapi.Number
	for user, uid := range bound {
		list = append(list, hubapi.Number{User: user, UID: uid})
	}
	return list, err
}

// Release forgets a user's number. What her sessions and jobs have left belongs to it, so there may be none, and none
// may begin meanwhile.
func (p people) Release(ctx context.Context, principal string) (hubapi.Number, error) {
	var uid int
	hers := func(w spawner.Workload) bool { return p.principal(w.Hub, w.Owner) == principal }
	err := p.engine.WithoutAny(hers, func() (err error) {
		uid, err = p.accounts.Release(ctx, principal)
		return err
	})
	if errs.Is(err, errs.Conflict) {
		err = errs.New(
			errs.Conflict,
			"%s has a session or a job (%s), and what it has written belongs to the number that is to be forgotten",
			principal, errs.Brief(err),
		).
			With("have all sessions and jobs of that user discarded first")
	}
	return hubapi.Number{User: principal, UID: uid}, err
}
