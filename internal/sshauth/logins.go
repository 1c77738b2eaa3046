package sshauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
)

const (
	loginTime     = 10 * time.Minute // then a login that nobody has confirmed is over
	loginInterval = 3 * time.Second  // between two looks of who asks
	loginLimit    = 1000             // of all that wait
	addressLimit  = 20               // of those of one address
	guessLimit    = 10               // of codes that one user gets wrong
	guessTime     = 10 * time.Minute
)

// letters are those of codes: no vowels, so that no code is a word (RFC 8628, section 6.1).
const letters = "BCDFGHJKLMNPQRSTVWXZ"

const codeLength = 8

// Ask says who wants in.
type Ask struct {
	Hub      string     // of which a user is to confirm; empty: of any
	Login    string     // the login name that was given; empty: whoever confirms is let in
	Key      string     // the public key that a certificate is to be issued for, as ssh-keygen writes it; empty: none is
	Computer string     // as who asks calls it; may be empty
	Address  netip.Addr // where it is asked from
}

// Login is a login that waits to be confirmed.
type Login struct {
	ID       string // a secret of who asks
	Code     string // what the user types
	Pages    []Page // where she does: one of them
	Interval time.Duration
	Expires  time.Time
}

// State is what has become of a login.
type State struct {
	Pending     bool
	Pass        Pass        // whom it lets in
	Certificate Certificate // its Serial is 0 where none was asked for
}

// Waiting is a login as its user sees it before she confirms it.
type Waiting struct {
	Code        string
	Login       string // the login name; empty: it is for a certificate
	Computer    string
	Address     netip.Addr
	Fingerprint string // of the key that gets a certificate; empty: none does
	Expires     time.Time
}

// login is one that waits, or that is decided and not yet fetched.
type login struct {
	Ask
	id, code    string
	fingerprint string
	expires     time.Time
	owner       Owner         // who has typed the code; zero: nobody yet
	decided     chan struct{} // closed when she has confirmed or refused
	confirmed   bool
}

// logins are kept in memory alone: after a restart who asks begins anew.
type logins struct {
	mu      sync.Mutex // guards the fields below
	byID    map[string]*login
	guesses map[Owner][]time.Time // codes that were not found
}

func newLogins() *logins { return &logins{byID: map[string]*login{}, guesses: map[Owner][]time.Time{}} }

// Begin lets somebody ask for a login.
func (a *Authority) Begin(ask Ask) (Login, error) {
	pages := slices.DeleteFunc(slices.Clone(a.cfg.Pages), func(p Page) bool { return ask.Hub != "" && p.Hub != ask.Hub })
	if len(pages) == 0 {
		return Login{}, errs.Bad("hub", ask.Hub, "leave it out, or name a hub of this service that has pages: "+hubNames(a.cfg.Pages))
	}
	l := &login{Ask: ask, id: rand.Text(), expires: time.Now().Add(loginTime), decided: make(chan struct{})}
	l.Computer = tidy(l.Computer)
	if ask.Key != "" {
		key, _, err := ParseKey(ask.Key)
		if err != nil {
			return Login{}, err
		}
		l.fingerprint = ssh.FingerprintSHA256(key)
	}
	if err := a.logins.add(l); err != nil {
		return Login{}, err
	}
	return Login{ID: l.id, Code: spaced(l.code), Pages: pages, Interval: loginInterval, Expires: l.expires}, nil
}

func hubNames(pages []Page) string {
	var names []string
	for _, p := range pages {
		names = append(names, p.Hub)
	}
	return cmp.Or(strings.Join(names, ", "), "there is none")
}

func (l *logins) add(new *login) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked()
	from := network(new.Address)
	n, codes := 0, map[string]bool{}
	for _, other := range l.byID {
		codes[other.code] = true
		if network(other.Address) == from {
			n++
		}
	}
	if len(l.byID) >= loginLimit || n >= addressLimit && !from.Addr().IsLoopback() { // a proxy on this host speaks for many
		return errs.New(errs.OverQuota, "too many logins wait to be confirmed").With("confirm one of yours, or try again in 10 minutes")
	}
	for new.code = newCode(); codes[new.code]; {
		new.code = newCode()
	}
	l.byID[new.id] = new
	return nil
}

// sweepLocked forgets what is over.
func (l *logins) sweepLocked() {
	now := time.Now()
	for id, each := range l.byID {
		if !now.Before(each.expires) {
			delete(l.byID, id)
		}
	}
	for owner, at := range l.guesses {
		if now.Sub(at[len(at)-1]) > guessTime {
			delete(l.guesses, owner)
		}
	}
}

// network is what one person may have many addresses of.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // the zero one of no address
	return p
}

func newCode() string {
	var code []byte
	for len(code) < codeLength {
		var b [codeLength]byte
		_, _ = rand.Read(b[:]) // never fails
		for _, n := range b {
			if int(n) < 256/len(letters)*len(letters) && len(code) < codeLength {
				code = append(code, letters[int(n)%len(letters)])
			}
		}
	}
	return string(code)
}

// spaced writes a code as people read it.
func spaced(code string) string { return code[:codeLength/2] + "-" + code[codeLength/2:] }

// read takes a code as people type it.
func read(code string) string {
	return strings.Map(func(r rune) rune {
		if r < 'A' || r > 'Z' {
			return -1
		}
		return r
	}, strings.ToUpper(code))
}

// Find shows an owner the login whose code she has typed. It is hers to decide from then on, and nobody else's.
func (a *Authority) Find(owner Owner, code string) (Waiting, error) {
	l := a.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked()
	now := time.Now()
	recent := slices.DeleteFunc(slices.Clone(l.guesses[owner]), func(t time.Time) bool { return now.Sub(t) > guessTime })
	if len(recent) >= guessLimit {
		return Waiting{}, errs.New(errs.OverQuota, "%d codes were wrong in the last minutes", len(recent)).With("try again in 10 minutes")
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
	done := !open(l.decided)
	return !taken && !done && (l.Hub == "" || l.Hub == owner.Hub) && (l.Login == "" || opens(l.Login, owner.User))
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
	return Waiting{Code: spaced(l.code), Login: l.Login, Computer: l.Computer, Address: l.Address, Fingerprint: l.fingerprint, Expires: l.expires}
}

// Found gives the logins that an owner has typed the code of, and not decided yet.
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
	slices.SortFunc(list, func(x, y Waiting) int { return cmp.Or(x.Expires.Compare(y.Expires), strings.Compare(x.Code, y.Code)) })
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
	return Waiting{}, errs.New(errs.NotFound, "the login does not wait any more").With("begin it again where you want to log in")
}

// Poll gives what has become of a login: errs.Forbidden where it was refused, errs.NotFound where it is over. What was confirmed is
// given once.
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

// take gives a login that is confirmed, and forgets it; nil where it waits.
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
		return nil, errs.New(errs.Forbidden, "the login was refused in the browser").With("begin it again, if it was yours")
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
