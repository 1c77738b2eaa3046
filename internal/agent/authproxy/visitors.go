package authproxy

import (
	"context"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

const (
	recheck      = 5 * time.Minute  // how long the Hub's word counts
	retry        = 10 * time.Second // when to ask a Hub again that did not answer
	hubPatience  = time.Hour        // how long its word counts while it does not answer
	mostVisitors = 1000             // of more the one is forgotten of whom the Hub was asked longest ago
)

// visitor is who was let in, in one browser or by one token.
type visitor struct {
	token secret.Text

	mu      sync.Mutex
	session digest    // of the Hub's own session in that browser, when the Hub was asked
	checked time.Time // when the Hub last said yes
	asked   time.Time // when it was last asked
	out     bool
}

// good asks whether a visitor may still come in; session is that of the Hub in her browser. After a logout there it is
// another, and the Hub is asked at once.
func (v *visitor) good(ctx context.Context, h *hub, session digest) error {
	return v.check(time.Now(), session, func() error { return h.identify(ctx, v.token) })
}

// check decides whether to ask, and what to make of the answer.
func (v *visitor) check(now time.Time, session digest, ask func() error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	same, told := v.session == session, now.Sub(v.checked)
	switch {
	case v.out:
		return errs.New(errs.Unauthorized, "this login has ended").With("log in again")
	case same && told < recheck, same && now.Sub(v.asked) < retry && told < hubPatience:
		return nil
	}
	v.asked = now
	err := ask()
	switch {
	case err == nil:
		v.checked, v.session = now, session
	case refused(err):
		v.out = true
	case same && told < hubPatience:
		return nil // unknown is not forbidden
	}
	return err
}

// refused reports whether the Hub has said no.
func refused(err error) bool { return errs.Is(err, errs.Unauthorized) || errs.Is(err, errs.Forbidden) }

// visitors are those let in, by the digest of what they show for it.
type visitors struct {
	mu   sync.Mutex
	list map[digest]*visitor
}

func newVisitors() *visitors { return &visitors{list: map[digest]*visitor{}} }

func (l *visitors) find(key string) *visitor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[digestOf(key)]
}

func (l *visitors) add(key string, v *visitor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) >= mostVisitors {
		l.dropOldest()
	}
	l.list[digestOf(key)] = v
}

func (l *visitors) dropOldest() {
	var oldest digest
	var at time.Time
	for key, v := range l.list {
		if !v.mu.TryLock() {
			continue // the Hub is being asked about her now
		}
		if at.IsZero() || v.checked.Before(at) {
			oldest, at = key, v.checked
		}
		v.mu.Unlock()
	}
	delete(l.list, oldest)
}

func (l *visitors) remove(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.list, digestOf(key))
}
