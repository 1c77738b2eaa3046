// Package devicelogin lets a program that has no browser of its own log its user in: it shows a code, and the user
// confirms in a browser, where the Hub knows them (RFC 8628). What the program gets then is decided by who begins the
// login.
//
// Promises: a login is decided once, by one user who has typed its code, and what was confirmed is taken once; codes
// cannot be found by trying; who begins many logins pushes out their own. Logins are kept in memory alone: after a
// restart the program begins anew. The package must not know what a login opens.
package devicelogin

import (
	"cmp"
	"crypto/rand"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"slipway/internal/errs"
)

// Purpose is what a login is for.
type Purpose string

// The purposes.
const (
	SSHConnection  Purpose = "ssh-connection"  // one connection by ssh
	SSHCertificate Purpose = "ssh-certificate" // a certificate of a key for ssh
	AccessToken    Purpose = "access-token"    // a token for the API
)

// Owner is a user of a hub.
type Owner struct {
	Hub  string `json:"hub"`
	User string `json:"user"`
}

// Page is where users of a hub confirm logins.
type Page struct{ Hub, URL string }

const (
	loginTime     = 10 * time.Minute // then a login that nobody has confirmed is over
	loginInterval = 3 * time.Second  // between two looks of who asks
	slowDown      = 5 * time.Second  // by which who looks too soon is to wait longer from then on
	loginLimit    = 1000             // of those of one purpose that wait
	sourceLimit   = 20               // of those of one source
	networkLimit  = 200              // of those of one network, which may have many sources
	guessLimit    = 10               // of codes that one user gets wrong
	guessTime     = 10 * time.Minute
)

// letters are those of codes: no vowels, so that no code is a word (RFC 8628, section 6.1).
const letters = "BCDFGHJKLMNPQRSTVWXZ"

const codeLength = 8

// Ask says who wants in.
type Ask struct {
	Purpose Purpose
	Hub     string                 // of which a user is to confirm; empty: of any
	Login   string                 // the login name that was given; empty: none
	Allows  func(user string) bool // says who may confirm; nil: anybody
	// the public key that a certificate is to be issued for, as ssh-keygen writes it; empty: none is
	Key         string
	Fingerprint string     // of that key
	Computer    string     // as who asks calls it; may be empty
	Program     string     // likewise: what asks
	Address     netip.Addr // where it is asked from; the zero one: not known
	Peer        netip.Addr // whose logins are limited together; the zero one: Address
}

// source is where an Ask comes from as far as limits go.
func (a Ask) source() netip.Prefix {
	if a.Peer.IsValid() {
		return Source(a.Peer)
	}
	return Source(a.Address)
}

// Login is a login that waits to be confirmed.
type Login struct {
	ID       string // a secret of who asks
	Code     string // what the user types
	Pages    []Page // where: one of them
	Interval time.Duration
	Expires  time.Time
}

// Waiting is a login as its user sees it before confirming it.
type Waiting struct {
	Ask
	Code    string
	Begun   time.Time
	Expires time.Time
}

// login is one that waits, or that is decided and not yet fetched.
type login struct {
	Ask
	id, code  string
	expires   time.Time
	owner     Owner         // who has typed the code; zero: nobody yet
	decided   chan struct{} // closed when the owner has confirmed or refused
	confirmed bool
	interval  time.Duration // between two looks
	looked    time.Time     // when who asks has looked last
}

// Logins are those that wait. They are safe for concurrent use.
type Logins struct {
	pages []Page

	mu      sync.Mutex // guards the fields below
	byID    map[string]*login
	guesses map[Owner][]time.Time // codes that were not found
}

// New makes Logins that are confirmed on these pages.
func New(pages []Page) *Logins {
	return &Logins{pages: pages, byID: map[string]*login{}, guesses: map[Owner][]time.Time{}}
}

// Pages returns where users confirm logins.
func (l *Logins) Pages() []Page { return slices.Clone(l.pages) }

// Begin lets somebody ask for a login.
func (l *Logins) Begin(ask Ask) (Login, error) {
	pages := slices.DeleteFunc(l.Pages(), func(p Page) bool { return ask.Hub != "" && p.Hub != ask.Hub })
	if len(pages) == 0 {
		return Login{}, errs.Bad(
			"hub", ask.Hub, "leave it out, or name a hub of this service that has pages: "+hubNames(l.pages),
		)
	}
	ask.Computer, ask.Program = Label(ask.Computer), Label(ask.Program)
	new := &login{
		Ask: ask, id: rand.Text(), expires: time.Now().Add(loginTime), decided: make(chan struct{}),
		interval: loginInterval,
	}
	if err := l.add(new); err != nil {
		return Login{}, err
	}
	return Login{ID: new.id, Code: spaced(new.code), Pages: pages, Interval: loginInterval, Expires: new.expires}, nil
}

// labelLimit is the most characters of what a program says of itself.
const labelLimit = 100

// Label returns what a program says of itself as others are shown it: on one line, and not long.
func Label(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	runes := []rune(strings.TrimSpace(text))
	return string(runes[:min(len(runes), labelLimit)])
}

func hubNames(pages []Page) string {
	var names []string
	for _, p := range pages {
		names = append(names, p.Hub)
	}
	return cmp.Or(strings.Join(names, ", "), "there is none")
}

// add keeps a login that begins. Where too many wait, one that nobody has typed the code of makes room: of its own
// source, of the source with the most in its own network, or of the network with the most. So nobody pushes out more of
// others' logins than these have too many.
func (l *Logins) add(new *login) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked()
	source := new.source()
	like := func(other *login) bool { return other.Purpose == new.Purpose }
	near := func(other *login) bool { return like(other) && Network(other.source()) == Network(source) }
	here := func(other *login) bool { return like(other) && other.source() == source }
	apart := source.IsValid() && !source.Addr().IsLoopback() // there many come from one
	if apart && !(l.roomLocked(sourceLimit, here) && l.roomLocked(networkLimit, near)) ||
		!l.roomLocked(loginLimit, like) {
		return errs.New(errs.OverQuota, "too many logins wait to be confirmed").
			With("confirm one of yours, or try again in 10 minutes")
	}
	for new.code = newCode(); l.takenLocked(new.code); {
		new.code = newCode()
	}
	l.byID[new.id] = new
	return nil
}

// roomLocked makes room for one more among at most so many that are alike: of those that nobody has typed the code of,
// the oldest of the source with the most in the network with the most goes.
func (l *Logins) roomLocked(most int, alike func(*login) bool) bool {
	n, sources, networks := 0, map[netip.Prefix]int{}, map[netip.Prefix]int{}
	for _, each := range l.byID {
		if alike(each) {
			n++
			sources[each.source()]++
			networks[Network(each.source())]++
		}
	}
	if n < most {
		return true
	}
	var goes *login
	for _, each := range l.byID {
		if !alike(each) || each.owner != (Owner{}) {
			continue
		}
		if goes == nil || cmp.Or(
			cmp.Compare(networks[Network(each.source())], networks[Network(goes.source())]),
			cmp.Compare(sources[each.source()], sources[goes.source()]),
			goes.expires.Compare(each.expires),
		) > 0 {
			goes = each
		}
	}
	if goes == nil {
		return false
	}
	delete(l.byID, goes.id)
	close(goes.decided) // whoever awaits it learns that it is over
	return true
}

func (l *Logins) takenLocked(code string) bool {
	for _, each := range l.byID {
		if each.code == code {
			return true
		}
	}
	return false
}

// sweepLocked forgets what is over.
func (l *Logins) sweepLocked() {
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

// Source returns what stands for one source of requests: an IPv6 network gives its hosts as many addresses as they
// like. No address has none.
func Source(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

// Network returns what one holder of addresses has of them: an IPv6 site gets a /48 with 65,536 sources, an IPv4
// network often is a /24.
func Network(source netip.Prefix) netip.Prefix {
	bits := 24
	if source.Addr().Is6() {
		bits = 48
	}
	p, _ := source.Addr().Prefix(bits)
	return p
}

// newCode returns one of 20^8 codes, 2.6e10. A user has 10 wrong ones in 10 minutes (guessLimit), and of the logins
// that wait there are at most 3,000: a guess hits one with a probability of 1.2e-7. A user who guesses for a year, 5e5
// times, finds one with 6 %; and has then only let somebody else into their own account.
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
