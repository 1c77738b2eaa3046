package sched

import (
	"cmp"
	"maps"
	"time"

	"slipway/spawner"
)

// For how long nobody of a user's is sent to a backend that takes no more of hers: longer each time, unless one of hers
// ends there.
const (
	minBackoff = 5 * time.Second
	maxBackoff = 5 * time.Minute
)

// allAtOnce is how many workloads a Remote must have taken at once for its backoff to end.
const allAtOnce = 64

// backoffs are the backends that nothing more of a user's can be sent to now: a Remote has said that it takes no more,
// or what her jobs need on this host is away. All of hers wait in line then, and the first of them is sent from time to
// time to see. They are lost with the service, which costs a repetition.
type backoffs map[association]*backoff

// association is a user of a backend, with their jobs or with their sessions: the one do not count where the others are
// limited.
type association struct {
	backend string
	of      spawner.Principal
	jobs    bool
}

func associationOf(w spawner.Workload) association {
	return association{w.Backend, w.Principal(), w.Kind.Batch()}
}

type backoff struct {
	why   string
	pause time.Duration
	until time.Time           // nobody is sent before
	room  int                 // how many may be on their way then: twice as many after each that was taken
	sent  map[spawner.ID]bool // who are on their way
}

// shut reports whether none of a user's may be sent at now.
func (r backoffs) shut(c association, now time.Time) bool {
	b := r[c]
	return b != nil && (now.Before(b.until) || len(b.sent) >= b.room)
}

// add notes at now that id was not taken, and gives the time until one is sent again.
func (r backoffs) add(c association, id spawner.ID, why string, now time.Time) time.Duration {
	maps.DeleteFunc(r, func(_ association, b *backoff) bool { return now.Sub(b.until) > time.Hour && len(b.sent) == 0 })
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
func (r backoffs) send(c association, id spawner.ID) {
	if b := r[c]; b != nil {
		b.sent[id] = true
	}
}

// taken notes that id was taken. It reports true when it was sent to see whether it would be: then there is room again.
func (r backoffs) taken(c association, id spawner.ID) bool {
	b := r[c]
	if b == nil || !b.sent[id] {
		return false
	}
	delete(b.sent, id)
	if b.pause, b.room = 0, 2*b.room; b.room > allAtOnce {
		delete(r, c)
	}
	return true
}

// left notes at now that id is on its way no more. ended says that it has ended where it was taken: there may be room
// again.
func (r backoffs) left(c association, id spawner.ID, ended bool, now time.Time) {
	b := r[c]
	if b == nil {
		return
	}
	if delete(b.sent, id); ended && now.Before(b.until) {
		b.until = now
	}
}

// barred reports whether a user may have no more of a line now, whatever room there is.
func (s *Scheduler) barred(c association, l line) bool {
	return s.ledger.full(c) || s.backoffs.shut(c, time.Now()) || s.full(c) != "" || s.overspent(c, l)
}

// whyBarred says so in words.
func (s *Scheduler) whyBarred(c association, l line) string {
	switch {
	case s.backoffs.shut(c, time.Now()):
		return s.backoffs[c].why
	case s.overspent(c, l):
		return s.whySpent(c.of)
	default:
		return cmp.Or(s.ledger.lacksOwn(c), s.full(c))
	}
}

// Sent notes that w is on its way to its backend.
func (s *Scheduler) Sent(w spawner.Workload) { s.backoffs.send(associationOf(w), w.ID) }

// Refused notes that a backend did not take w, and returns the time until one of the same user's is sent again.
func (s *Scheduler) Refused(w spawner.Workload, why string, now time.Time) time.Duration {
	return s.backoffs.add(associationOf(w), w.ID, why, now)
}

// Taken notes that a backend has taken w. It reports true when w was sent to see whether it would be: then others may
// go too.
func (s *Scheduler) Taken(w spawner.Workload) bool { return s.backoffs.taken(associationOf(w), w.ID) }
