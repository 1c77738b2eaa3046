package sshauth

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
)

// Find shows an owner the login whose code she has typed. It is hers to decide from then on, and nobody else's.
func (a *Authority) Find(owner Owner, code string) (Waiting, error) {
	l := a.logins
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

// isFor reports whether owner may decide: nobody else has begun to, and it is her name that was given.
func (l *login) isFor(owner Owner) bool {
	taken := l.owner != (Owner{}) && l.owner != owner
	_, fits := Target(l.Login, owner.User)
	return !taken && open(l.decided) && (l.Hub == "" || l.Hub == owner.Hub) && (l.Login == "" || fits)
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
	return Waiting{
		Code: spaced(l.code), Login: l.Login, Computer: l.Computer, Address: l.Address, Fingerprint: l.fingerprint,
		Expires: l.expires,
	}
}

// Found returns the logins that an owner has typed the code of, and not decided yet.
func (a *Authority) Found(owner Owner) (list []Waiting) {
	l := a.logins
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
func (a *Authority) Decide(owner Owner, code string, yes bool) (Waiting, error) {
	l := a.logins
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

// Poll returns what has become of a login: errs.Forbidden where it was refused, errs.NotFound where it is over. What
// was confirmed is given once.
func (a *Authority) Poll(ctx context.Context, id string) (State, error) {
	l, err := a.logins.take(id)
	if err != nil || l == nil {
		return State{Pending: err == nil}, err
	}
	s := State{Pass: Pass{Owner: l.owner, Session: AnySession}}
	if l.Key == "" {
		return s, nil
	}
	s.Certificate, err = a.Issue(ctx, l.owner, Request{Key: l.Key, Session: AnySession, Computer: l.Computer})
	if err != nil {
		a.logins.putBack(l)
		return State{}, err
	}
	s.Pass.Key, s.Pass.Serial, s.Pass.Expires = s.Certificate.Fingerprint, s.Certificate.Serial, s.Certificate.Expires
	return s, nil
}

// take returns a login that is confirmed, and forgets it; nil where it waits.
func (l *logins) take(id string) (*login, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked()
	found, ok := l.byID[id]
	switch {
	case !ok:
		return nil, errs.New(errs.NotFound, "the login is over, or was fetched already").With("begin it again")
	case open(found.decided):
		return nil, nil
	case !found.confirmed:
		return nil, errs.New(errs.Forbidden, "the login was refused in the browser").
			With("begin it again, if it was yours")
	}
	delete(l.byID, id)
	return found, nil
}

func (l *logins) putBack(old *login) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byID[old.id] = old
}

// Await is Poll for who can wait: it returns when the login is decided or over. When ctx ends, so does the login.
func (a *Authority) Await(ctx context.Context, id string) (State, error) {
	l := a.logins
	l.mu.Lock()
	found, ok := l.byID[id]
	l.mu.Unlock()
	if ok {
		over := time.NewTimer(time.Until(found.expires))
		defer over.Stop()
		select {
		case <-found.decided:
		case <-over.C:
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.byID, id)
			return State{}, ctx.Err()
		}
	}
	return a.Poll(ctx, id)
}
