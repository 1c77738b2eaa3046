package oidcissuer

import (
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func (i *Issuer) set(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

// Grant makes a refresh token for subject.
func (i *Issuer) Grant(subject string) (token string) {
	i.set(func() { token = i.newFamily(subject).current })
	return token
}

// Withdraw ends all refresh tokens of subject.
func (i *Issuer) Withdraw(subject string) {
	i.set(func() {
		for _, f := range i.refresh {
			f.ended = f.ended || f.subject == subject
		}
	})
}

// Ended reports whether subject has had refresh tokens, and none is good any more.
func (i *Issuer) Ended(subject string) (ended bool) {
	i.set(func() {
		for _, f := range i.refresh {
			if f.subject == subject && !f.ended {
				ended = false
				return
			}
			ended = ended || f.subject == subject
		}
	})
	return ended
}

// Confirm confirms, as subject, the login with a code.
func (i *Issuer) Confirm(code, subject string) { i.set(func() { i.codes[code].subject = subject }) }

// Deny refuses the login with a code.
func (i *Issuer) Deny(code string) { i.set(func() { i.codes[code].denied = true }) }

// Down turns the issuer off, or on again.
func (i *Issuer) Down(down bool) { i.set(func() { i.down = down }) }

// Slow has every answer take so long.
func (i *Issuer) Slow(d time.Duration) { i.set(func() { i.slow = d }) }

// Life sets how long access tokens hold.
func (i *Issuer) Life(d time.Duration) { i.set(func() { i.life = d }) }

// Bare takes away all but refreshing.
func (i *Issuer) Bare() { i.set(func() { i.bare = true }) }

// KeepRefresh has refresh tokens stay as they are when they are used.
func (i *Issuer) KeepRefresh() { i.set(func() { i.keep = true }) }

// Echo has the issuer refuse what is asked for, and repeat in its words what it was sent, as some do.
func (i *Issuer) Echo() { i.set(func() { i.echo = true }) }

// NewKey has the issuer sign with a new key, and show that one alone.
func (i *Issuer) NewKey() { i.set(i.newKey) }

// Metadata lets f change what the issuer says of itself.
func (i *Issuer) Metadata(f func(map[string]any)) { i.set(func() { i.metadata = f }) }

// Twist lets f change the claims of access tokens, or give the token itself.
func (i *Issuer) Twist(f func(jwt.MapClaims) string) { i.set(func() { i.twist = f }) }

// Asked counts the requests for a path, such as "/keys"; "refresh alice" counts the refreshes of a subject.
func (i *Issuer) Asked(what string) (n int) {
	i.set(func() { n = i.asked[what] })
	return n
}

// Given lists every token and secret that was ever given out.
func (i *Issuer) Given() (list []string) {
	i.set(func() { list = slices.Clone(i.given) })
	return list
}
