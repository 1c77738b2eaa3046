package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// For how long nobody of a user's is sent to a backend that takes no more of hers: longer each time, unless one of hers ends there.
const (
	minBackoff = 5 * time.Second
	maxBackoff = 5 * time.Minute
)

// freely is how many may be sent at once to a Remote that counts as one that takes them all again.
const freely = 64

// backoffs are the backends that nothing more of a user's can be sent to now: a Remote has said that it takes no more, or what her jobs need on
// this host is away. All of hers wait in line then, and the first of them is sent from time to time to see. They are lost with the service, which costs a repetition. The Manager's lock guards them.
type backoffs map[client]*backoff

// client is a user of a backend, with her jobs or with her sessions: the one do not count where the others are limited.
type client struct {
	backend string
	of      spawner.Principal
	jobs    bool
}

func clientOf(w spawner.Workload) client {
	return client{w.Backend, w.Principal(), w.Kind == spawner.Job}
}

type backoff struct {
	why   string
	pause time.Duration
	until time.Time           // nobody is sent before
	room  int                 // how many may be on their way then: twice as many after each that was taken
	sent  map[spawner.ID]bool // who are on their way
}

// shut reports whether none of a user's may be sent at now.
func (r backoffs) shut(c client, now time.Time) bool {
	b := r[c]
	return b != nil && (now.Before(b.until) || len(b.sent) >= b.room)
}

// add notes at now that id was not taken, and gives the time until one is sent again.
func (r backoffs) add(c client, id spawner.ID, why string, now time.Time) time.Duration {
	maps.DeleteFunc(r, func(_ client, b *backoff) bool { return now.Sub(b.until) > time.Hour && len(b.sent) == 0 })
	b := r[c]
	if b == nil {
		b = &backoff{sent: map[spawner.ID]bool{}}
		r[c] = b
	}
	delete(b.sent, id)
	if b.why = why; !now.Before(b.until) { // otherwise it was on its way already when another was refused
		b.pause = min(max(2*b.pause, minBackoff), maxBackoff)
		b.until, b.room = now.Add(b.pause), 1
	}
	return b.until.Sub(now)
}

// send notes that id is on its way.
func (r backoffs) send(c client, id spawner.ID) {
	if b := r[c]; b != nil {
		b.sent[id] = true
	}
}

// taken notes that id was taken. It reports true when it was sent to see whether it would be: then there is room again.
func (r backoffs) taken(c client, id spawner.ID) bool {
	b := r[c]
	if b == nil || !b.sent[id] {
		return false
	}
	delete(b.sent, id)
	if b.pause, b.room = 0, 2*b.room; b.room > freely {
		delete(r, c)
	}
	return true
}

// left notes at now that id is on its way no more. ended says that it has ended where it was taken: there may be room again.
func (r backoffs) left(c client, id spawner.ID, ended bool, now time.Time) {
	b := r[c]
	if b == nil {
		return
	}
	if delete(b.sent, id); ended && now.Before(b.until) {
		b.until = now
	}
}

// backOff has a workload that a Remote does not take now go back in line.
func (m *Manager) backOff(ctx context.Context, e entry, err error) error {
	m.log.Info("a backend takes no more of a user's workloads now", "id", e.ID, "owner", e.Owner, "backend", e.Backend, "err", err)
	return m.postpone(ctx, e, m.at(e.Backend)+" takes no more now: "+brief(err))
}

// postpone has a workload go back in line that cannot start now, for what keeps the others of its owner from starting too. It holds nothing
// while it waits.
func (m *Manager) postpone(ctx context.Context, e entry, why string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.work[e.ID]
	if now == nil || now.Rev != e.Rev {
		return nil
	}
	again := m.backoffs.add(clientOf(e.Workload), e.ID, why, time.Now())
	m.queue.addAfter(e.ID, again)
	return m.moveLocked(ctx, now, why, nil)
}

// takenLocked notes that a Remote has taken a workload.
func (m *Manager) takenLocked(e *entry) {
	if e.started = true; m.backoffs.taken(clientOf(e.Workload), e.ID) {
		m.wakeHeadsLocked()
	}
}

// brief returns the words of the error of a kind that err is, without what it came from.
func brief(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	switch {
	case !ok:
		return err.Error()
	case e.Err == nil:
		return e.Message
	default:
		return strings.TrimSuffix(e.Message, ": "+e.Err.Error())
	}
}

// barredLocked reports whether a user may have no more of a line now, whatever room there is.
func (m *Manager) barredLocked(c client, l line) bool {
	return m.ledger.full(c) || m.backoffs.shut(c, time.Now()) || m.fullLocked(c) != "" || m.overspentLocked(c, l)
}

// whyBarredLocked says so in words.
func (m *Manager) whyBarredLocked(c client, l line) string {
	switch {
	case m.backoffs.shut(c, time.Now()):
		return m.backoffs[c].why
	case m.overspentLocked(c, l):
		return m.whySpentLocked(c.of)
	default:
		return cmp.Or(m.ledger.lacksOwn(c), m.fullLocked(c))
	}
}
