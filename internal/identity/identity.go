// Package identity says who users are: it gives every user an account on this host, a numeric user id of her own, kept
// for ever, and a place for a home; and it says by the site's rules whose the subject of a token, the holder of a
// certificate or an account of the host is. Users are told apart by their realm and their name: hubs whose users of one
// name are the same people share a realm.
//
// Promises: an id is one user's alone, wherever it comes from, and none that is given out here is an account's of the
// host at that time, and is never another's while the store has hers; what is
// not known just now is an error of kind Unavailable, and never another number; a rule fits the whole of what it is
// asked for, or not at all; two users that differ in anything, case included, have two homes, also on a file system
// that ignores case. Homes themselves are package homes's: nothing here touches a user's file system.
package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"slipway/internal/errs"
	"slipway/internal/store"
)

// bucket is where the store keeps the accounts; nextKey holds the next free id. A user's key has a prefix, so no name
// meets it.
const (
	bucket  = "accounts"
	nextKey = "next"
)

// nameLimit is the most bytes of a user's name.
const nameLimit = 255

// Config is what Accounts need.
type Config struct {
	Store       *store.Store
	First, Last int    // the user ids that may be given out
	GID         int    // the primary group of all accounts
	Homes       string // directory of the homes
	Look        Look   // gives the numbers that users have elsewhere. Nil: ids are given out of the range
	// Holders returns which of these numbers accounts of the host have: no user is given one of them. Nil: none has any.
	Holders func(context.Context, []int) (map[int]string, error)
}

// Accounts gives out accounts. It is safe for concurrent use.
type Accounts struct {
	cfg Config

	giving sync.Mutex     // one new id at a time. Who has one already does not wait for the host's directory
	ids    sync.Mutex     // guards the fields below; one question at a time to the store, which has one connection
	known  map[string]int // all ids that the store has, by principal; nil: not read yet
	owners map[int]string // the same the other way
}

// Account is one user on this host. spawner.Account has the same fields and is stored with workloads: this package knows
// no engine, and the engine no accounts.
type Account struct {
	UID, GID int
	Groups   []Group // beside the first
	Login    string  // fit for a line of /etc/passwd
	HomeDir  string  // on this host, where the site has no other place for homes; whether it is there is not known here
	Home     string  // inside workloads
}

// New makes Accounts.
func New(cfg Config) (*Accounts, error) {
	if cfg.First < 1000 || cfg.Last < cfg.First {
		return nil, errs.Bad(
			"users.uids", fmt.Sprintf("%d-%d", cfg.First, cfg.Last),
			"a range of ids from 1000 on that no other account of the host has",
		)
	}
	return &Accounts{cfg: cfg}, nil
}

// Site is the realm whose users go by their names alone, and whose homes lie directly in the directory of the homes.
const Site = "site"

// Principal returns the one word for a user of a realm, by which records know her: no two users share one.
func Principal(realm, user string) string {
	if realm == Site && !strings.HasPrefix(user, "@") {
		return user
	}
	return "@" + realm + "/" + user // a realm holds no slash
}

// HubGroup names a group of a Hub. No other group's name has a colon, and no hub's.
func HubGroup(hub, group string) string { return hub + ":" + group }

// UserOf returns the user's name in a word that Principal gave.
func UserOf(principal string) string {
	if !strings.HasPrefix(principal, "@") {
		return principal
	}
	_, user, _ := strings.Cut(principal, "/")
	return user
}

// RealmOf returns the realm in a word that Principal gave.
func RealmOf(principal string) string {
	realm, _, named := strings.Cut(strings.TrimPrefix(principal, "@"), "/")
	if !named || !strings.HasPrefix(principal, "@") {
		return Site
	}
	return realm
}

// Account returns the account of a realm's user, making it at the first time.
func (a *Accounts) Account(ctx context.Context, realm, user string) (Account, error) {
	if err := check(user); err != nil {
		return Account{}, err
	}
	homes, err := a.homesOf(realm)
	if err != nil {
		return Account{}, err
	}
	home := filepath.Join(homes, DirName(user))
	n, err := a.numbers(ctx, realm, user, home)
	if err != nil {
		return Account{}, err
	}
	login := loginName(n.Login, n.UID)
	account := Account{UID: n.UID, GID: n.GID, Groups: n.Groups, Login: login, Home: "/home/" + login, HomeDir: home}
	return account, nil
}

// numbers returns those of a user: of where the site has them, or new ones that stay hers.
func (a *Accounts) numbers(ctx context.Context, realm, user, home string) (Numbers, error) {
	if a.cfg.Look == nil {
		uid, err := a.uid(ctx, Principal(realm, user))
		return Numbers{UID: uid, GID: a.cfg.GID, Login: user}, err
	}
	principal := Principal(realm, user)
	n, err := a.cfg.Look(ctx, realm, user)
	if errs.Is(err, errs.Missing) {
		err = a.missed(ctx, principal, err)
	}
	if err == nil {
		n, err = n.check()
	}
	if err == nil {
		err = a.bind(ctx, principal, n, home)
	}
	return n, err
}

// missed is the error of an account that is not there: of one that was, a directory that is down says the same.
func (a *Accounts) missed(ctx context.Context, principal string, missing error) error {
	uid, had := a.UID(ctx, principal)
	if !had {
		return missing
	}
	return errs.New(
		errs.Unavailable, "%s; %s has had the number %d, so this may pass", errs.Brief(missing), principal, uid,
	).With(strings.TrimPrefix(remedyOf(missing)+"; if the account is gone for good, "+releasing(principal), "; "))
}

// plainRealm is what may name a directory.
var plainRealm = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]*$`)

// homesOf returns the directory of a realm's homes. A user's directory never begins with '@', so no home is taken for
// one.
func (a *Accounts) homesOf(realm string) (string, error) {
	switch {
	case realm == Site:
		return a.cfg.Homes, nil
	case !plainRealm.MatchString(realm):
		return "", errs.Bad("realm", realm, "a word of lower-case letters, digits, '-', '_' and '.'")
	}
	homes := filepath.Join(a.cfg.Homes, "@"+realm)
	return homes, nil
}

func check(user string) error {
	switch {
	case user == "":
		return errs.Bad("user", "", "a name")
	case len(user) > nameLimit:
		return errs.Bad("user", user[:20]+"...", fmt.Sprintf("at most %d bytes", nameLimit))
	case !utf8.ValidString(user) || strings.ContainsFunc(user, unicode.IsControl):
		return errs.Bad("user", user, "valid UTF-8 without control characters")
	}
	return nil
}

// uid returns a principal's id of the range, for ever the same.
func (a *Accounts) uid(ctx context.Context, principal string) (int, error) {
	if uid, had, err := a.had(ctx, principal); err != nil || had {
		return uid, err
	}
	a.giving.Lock()
	defer a.giving.Unlock()
	if uid, had, err := a.had(ctx, principal); err != nil || had {
		return uid, err
	}
	return a.give(ctx, principal)
}

// had returns the id that a principal has, if any.
func (a *Accounts) had(ctx context.Context, principal string) (uid int, had bool, err error) {
	a.ids.Lock()
	defer a.ids.Unlock()
	if err := a.recall(ctx); err != nil {
		return 0, false, err
	}
	uid, had = a.known[principal]
	return uid, had, nil
}

// give returns a principal the next id. Nothing may be owned by an id that the store could lose. The caller has giving.
func (a *Accounts) give(ctx context.Context, principal string) (int, error) {
	next := a.cfg.First
	if err := a.cfg.Store.Get(ctx, bucket, nextKey, &next); err != nil && !errs.Is(err, errs.NotFound) {
		return 0, err
	}
	uid, err := a.free(ctx, next)
	if err != nil {
		return 0, err
	}
	a.ids.Lock()
	defer a.ids.Unlock()
	err = a.cfg.Store.Batch(ctx, func(tx *store.Tx) error {
		return errors.Join(tx.Put(ctx, bucket, userKey+principal, uid), tx.Put(ctx, bucket, nextKey, uid+1))
	})
	if err == nil {
		err = a.cfg.Store.Sync(ctx)
	}
	if err == nil {
		a.known[principal], a.owners[uid] = uid, principal
	}
	return uid, err
}

// asked is how many numbers the host is asked for at once.
const asked = 64

// free returns the next id of the range that neither a user nor an account of the host has.
func (a *Accounts) free(ctx context.Context, next int) (int, error) {
	if next > a.cfg.Last+1 {
		return 0, errs.New(
			errs.OverQuota, "the next user id, %d, is above users.uids %d-%d: ids only go up, so that none is given twice",
			next, a.cfg.First, a.cfg.Last,
		).With(fmt.Sprintf("the administrator chooses a range for users.uids that ends above %d", next))
	}
	for next = max(next, a.cfg.First); next <= a.cfg.Last; {
		ids := a.unowned(next)
		taken, err := a.takenOf(ctx, ids)
		if err != nil {
			return 0, err
		}
		for _, id := range ids {
			if taken[id] == "" {
				return id, nil
			}
			next = id + 1
		}
		if len(ids) == 0 {
			break
		}
	}
	return 0, errs.New(errs.OverQuota, "all user ids from %d to %d are given out", a.cfg.First, a.cfg.Last).
		With("the administrator widens users.uids in the service's configuration")
}

// unowned returns the first ids from next on, within the range, that no user has.
func (a *Accounts) unowned(next int) (ids []int) {
	a.ids.Lock()
	defer a.ids.Unlock()
	for ; next <= a.cfg.Last && len(ids) < asked; next++ {
		if a.owners[next] == "" {
			ids = append(ids, next)
		}
	}
	return ids
}

// takenOf returns which of these ids accounts of the host have.
func (a *Accounts) takenOf(ctx context.Context, ids []int) (map[int]string, error) {
	if a.cfg.Holders == nil || len(ids) == 0 {
		return nil, nil
	}
	return a.cfg.Holders(ctx, ids)
}

var plainLogin = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// numbered is how the accounts of all other names are called.
var numbered = regexp.MustCompile(`^u[0-9]+$`)

// reserved are login names that images have for themselves.
var reserved = map[string]bool{
	"root": true, "daemon": true, "bin": true, "sys": true, "sync": true, "games": true, "man": true, "lp": true,
	"mail": true, "news": true,
	"uucp": true, "proxy": true, "www-data": true, "backup": true, "list": true, "irc": true, "nobody": true,
	"_apt": true,
}

// loginName returns the user's own name where /etc/passwd can hold it.
func loginName(user string, uid int) string {
	if plainLogin.MatchString(user) && !reserved[user] && !numbered.MatchString(user) {
		return user
	}
	return fmt.Sprintf("u%d", uid)
}

// DirName returns the name of a user's directory: letters, digits, '-' and '_' as they are when lower case, every other
// byte as "=XX". Names that would become too long keep their beginning and end in a hash. No two users share one, also
// where case is ignored.
func DirName(user string) string {
	var b strings.Builder
	for i := range len(user) {
		switch c := user[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	if b.Len() <= 120 {
		return b.String()
	}
	sum := sha256.Sum256([]byte(user))
	return b.String()[:48] + "=-" + hex.EncodeToString(sum[:]) // "=-" is no escape, so no short name ends like this
}
