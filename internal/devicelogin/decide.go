package devicelogin

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
)

// Find shows an owner the login whose code she has typed. From then on only that owner decides it.
func (l *Logins) Find(owner Owner, code string) (Waiting, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked()
	now := time.Now()
	recent := slices.DeleteFunc(
		slices.Clone(l.guesses[owner]), func(t time.Time) bool { return now.Sub(t) > guessTime },
	)
	if len(recent) >= guessLimit {
		return Waiting{}, errs.New(errs.OverQuota, "%d codes were wrong in the last minutes", len(recent)).
			With("try again in 10 minutes")
	}
	for _, each := range l.byID {
		if each.code == read(code) && each.isFor(owner) {
			each.owner = owner
			return each.waiting(), nil
		}
	}
	l.guesses[owner] = append(recent, now)
	return Waiting{}, errs.New(errs.NotFound, "no login waits under this code").
		With("look at the code again where it is shown; it is good for 10 minutes, once, and for one user")
}

// isFor reports whether owner may decide: nobody else has begun to, and who asks allows it.
func (l *login) isFor(owner Owner) bool {
	taken := l.owner != (Owner{}) && l.owner != owner
	return !taken && open(l.decided) && (l.Hub == "" || l.Hub == owner.Hub) &&
		(l.Allows == nil || l.Allows(owner.User))
}

func open(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

func (l *login) waiting() Waiting {
	return Waiting{Ask: l.Ask, Code: spaced(l.code), Begun: l.expires.Add(-loginTime), Expires: l.expires}
}

// Found returns the logins that an owner has typed the code of, and not decided yet.
func (l *Logins) Found(owner Owner) (list []Waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked()
	for _, each := range l.byID {
		if each.owner == owner && open(each.decided) {
			list = append(list, each.waiting())
		}
	}
	slices.SortFunc(
		list, func(x, y Waiting) int { return cmp.Or(x.Expires.Compare(y.Expires), strings.Compare(x.Code, y.Code)) },
	)
	return list
}

// Decide confirms or refuses a login that owner has found.
func (l *Logins) Decide(owner Owner, code string, yes bool) (Waiting, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked()
	for _, each := range l.byID {
		if each.owner == owner && each.code == read(code) && open(each.decided) {
			each.confirmed = yes
			close(each.decided)
			return each.waiting(), nil
		}
	}
	return Waiting{}, errs.New(errs.NotFound, "the login does not wait any more").
		With("begin it again where you want to log in")
}

// Confirmed is a login that its user has confirmed.
type Confirmed struct {
	Ask
	Owner Owner // the user
	login *login
}

// Take returns a login of one of these purposes that is confirmed, and forgets it; false: it waits still. It returns
// errs.Forbidden where the login was refused, and errs.NotFound where it is over.
func (l *Logins) Take(id string, purposes ...Purpose) (Confirmed, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked()
	found, ok := l.byID[id]
	switch {
	case !ok || !slices.Contains(purposes, found.Purpose):
		return Confirmed{}, false, errs.New(errs.NotFound, "the login is over, or was fetched already").
			With("begin it again")
	case open(found.decided):
		return Confirmed{}, false, nil
	case !found.confirmed:
		return Confirmed{}, false, errs.New(errs.Forbidden, "the login was refused in the browser").
			With("begin it again, if it was yours")
	}
	delete(l.byID, id)
	return Confirmed{Ask: found.Ask, Owner: found.owner, login: found}, true, nil
}

// Looked notes that a program looks what has become of its login, and returns how long it is to wait until the next
// look. false: it has looked too soon, so it is to wait longer from now on (RFC 8628, section 3.5).
func (l *Logins) Looked(id string) (interval time.Duration, inTime bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.byID[id]
	if !ok {
		return loginInterval, true
	}
	now := time.Now()
	inTime = now.Sub(found.looked) >= found.interval*9/10 // clocks differ a little
	if !inTime {
		found.interval += slowDown
	}
	found.looked = now
	return found.interval, inTime
}

// PutBack lets a login be taken again: what it was taken for has failed.
func (l *Logins) PutBack(c Confirmed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byID[c.login.id] = c.login
}

// Wait returns when a login is decided or over. When ctx ends, so does the login.
func (l *Logins) Wait(ctx context.Context, id string) error {
	l.mu.Lock()
	found, ok := l.byID[id]
	l.mu.Unlock()
	if !ok {
		return nil
	}
	over := time.NewTimer(time.Until(found.expires))
	defer over.Stop()
	select {
	case <-found.decided:
	case <-over.C:
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.byID, id)
		return ctx.Err()
	}
	return nil
}
