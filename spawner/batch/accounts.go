package batch

import (
	"context"
	"errors"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch/command"
)

// owner is the account that a job is of.
type owner struct {
	login    string
	uid, gid int
}

// getent asks the table of users of the access point.
const getent = "getent"

// lookup returns the numbers of an account where jobs are submitted. The getent in the directory of the batch system's
// commands knows them, where there is one, as when the commands stand for another machine's; else this host's table of
// users does.
func lookup(c Config, system, login string) (uid, gid int, err error) {
	if _, err := exec.LookPath(filepath.Join(c.Bin, getent)); c.Bin == "" || err != nil {
		return lookupHere(c.Name, system, login)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := command.Programs{System: system, Dir: c.Bin}.Run(ctx, command.Command{Name: getent, Args: []string{"passwd", "--", login}})
	if f, ok := command.AsFailure(err); ok && f.Code == noSuchKey {
		return 0, 0, noAccount(c.Name, system, login)
	}
	if err != nil {
		return 0, 0, err
	}
	return parsePasswd(string(out), login)
}

// noSuchKey is how getent ends when there is no such account.
const noSuchKey = 2

func lookupHere(key, system, login string) (uid, gid int, err error) {
	u, err := user.Lookup(login)
	if _, ok := errors.AsType[user.UnknownUserError](err); ok {
		return 0, 0, noAccount(key, system, login)
	}
	if err != nil {
		return 0, 0, errs.New(errs.Unavailable, "this host's table of users does not answer: %w", err)
	}
	uid, err = strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(err, err2)
}

func noAccount(key, system, login string) error {
	return errs.New(
		errs.Forbidden, "there is no account %s where %s's jobs are submitted, as which they are to run", login, system,
	).With("tell your administrator: have the account made, or have " + key + ".owner name one for all")
}

// parsePasswd reads an account's line of a table of users.
func parsePasswd(line, login string) (uid, gid int, err error) {
	f := strings.Split(strings.TrimSpace(line), ":")
	if len(f) != 7 || f[0] != login {
		return 0, 0, errs.New(
			errs.Unavailable, "getent printed %q for the account %s", OneLine(line, MaxReason), login,
		)
	}
	u, err := strconv.ParseUint(f[2], 10, 31)
	g, err2 := strconv.ParseUint(f[3], 10, 31)
	return int(u), int(g), errors.Join(err, err2)
}

// For how long the answer of a table of users counts. A table that does not answer is not waited for by each point of a
// scan.
const (
	accountsKept = time.Minute
	accountsAnew = 5 * time.Second
)

// accounts are those of the host where jobs are submitted. It is safe for concurrent use.
type accounts struct {
	lookup func(login string) (uid, gid int, err error)
	system string     // the batch system's name
	key    string     // its part of the configuration
	mu     sync.Mutex // guards held, and is held while one is looked up: the points of a scan are all of one
	held   map[string]answer
}

// answer is a table's about an account.
type answer struct {
	owner owner
	err   error
	until time.Time
}

// of returns an account as which jobs may run.
func (a *accounts) of(login string) (owner, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k, ok := a.held[login]; ok && time.Now().Before(k.until) {
		return k.owner, k.err
	}
	k := answer{owner: owner{login: login}}
	if k.owner.uid, k.owner.gid, k.err = a.lookup(login); k.err == nil {
		k.err = a.permitted(k.owner)
	}
	if k.until = time.Now().Add(accountsKept); k.err != nil {
		k.owner, k.until = owner{}, time.Now().Add(accountsAnew)
	}
	a.held[login] = k
	return k.owner, k.err
}

// ownerOf returns the account that a workload's job is of: the user's own, which must be the same here and there,
// unless all are mapped to one.
func (b *Backend) ownerOf(l spawner.Launch) (owner, error) {
	if !SafeWord.MatchString(l.Account.Login) {
		return owner{}, errs.New(errs.Invalid, "the account %q cannot be a user of %s", l.Account.Login, b.Title()).
			With("have a login of letters, digits and ._-")
	}
	if b.cfg.Owner != "" {
		return b.accounts.of(b.cfg.Owner)
	}
	own := owner{l.Account.Login, l.Account.UID, l.Account.GID}
	if err := b.accounts.permitted(own); err != nil {
		return owner{}, err
	}
	there, err := b.accounts.of(own.login)
	if err != nil {
		return owner{}, err
	}
	if there.uid != own.uid {
		return owner{}, errs.New(
			errs.Forbidden, "the account %s is uid %d where %s's jobs are submitted, and %d here", own.login, there.uid,
			b.Title(), own.uid,
		).With("tell your administrator: the users' numbers are to be the same, or " + b.cfg.Name +
			".owner is to name one account for all")
	}
	return own, nil
}

// permitted refuses accounts that are not people's.
func (a *accounts) permitted(o owner) error {
	if o.uid <= 0 || slices.Contains([]string{"root", "condor", "slurm", "nobody", "daemon"}, o.login) {
		return errs.New(errs.Forbidden, "%s runs no jobs of the account %s (uid %d) for anybody", a.system, o.login, o.uid).
			With("tell your administrator: another account, or " + a.key + ".owner for all")
	}
	return nil
}
