package authproxy

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"time"
)

const (
	loginTime  = 10 * time.Minute // how long a login may take
	mostLogins = 1000             // under way; of more the oldest are forgotten
)

// digest stands for a secret where only its sameness counts.
type digest [sha256.Size]byte

func digestOf(s string) digest { return sha256.Sum256([]byte(s)) }

// login is one that is under way: the visitor is at the Hub.
type login struct {
	next     string // where to go then
	browser  digest // of the cookie that the same browser has
	verifier string // of the code, as PKCE has it (RFC 7636)
	until    time.Time
}

// logins are those under way, by the state that must come back.
type logins struct {
	mark string

	mu     sync.Mutex
	states map[string]login
}

func newLogins(mark string) *logins { return &logins{mark: mark, states: map[string]login{}} }

// begin begins a login to go on to next. cookie is what the browser has of an earlier one: with several tabs each has a
// login of its own, and all the same cookie. What no login of this gate's has given out is replaced.
func (l *logins) begin(cookie, next string) (state, browser, challenge string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(time.Now())
	browser = rand.Text()
	for _, other := range l.states {
		if cookie != "" && other.browser == digestOf(cookie) {
			browser = cookie
		}
	}
	state = l.mark + rand.Text()
	verifier := rand.Text() + rand.Text() // 43 characters are the least
	l.states[state] = login{
		next: next, browser: digestOf(browser), verifier: verifier, until: time.Now().Add(loginTime),
	}
	sum := digestOf(verifier)
	return state, browser, base64.RawURLEncoding.EncodeToString(sum[:])
}

// forget drops what has come of age, and the oldest one when there are too many.
func (l *logins) forget(now time.Time) {
	oldest := ""
	for state, one := range l.states {
		if now.After(one.until) {
			delete(l.states, state)
		} else if oldest == "" || one.until.Before(l.states[oldest].until) {
			oldest = state
		}
	}
	if len(l.states) >= mostLogins {
		delete(l.states, oldest)
	}
}

// take ends a login, which is good for one try, by the browser that has begun it.
func (l *logins) take(state, cookie string) (login, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, known := l.states[state]
	delete(l.states, state)
	return one, known && strings.HasPrefix(state, l.mark) && cookie != "" && one.browser == digestOf(cookie) &&
		time.Now().Before(one.until)
}
