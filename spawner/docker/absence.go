package docker

import "time"

// absence is a time in which the engine's events did not come: it was restarted, or is down. What ended in it, ended
// with it.
type absence struct {
	from time.Time
	to   time.Time // zero: it lasts
}

// notice is how long it may take until it is seen that the events broke off.
const notice = 2 * time.Second

// holds reports whether t lies in the absence. There is none in nil, and no time in a zero t.
func (a *absence) holds(t time.Time) bool {
	return a != nil && !t.IsZero() && !t.Before(a.from.Add(-notice)) && (a.to.IsZero() || !t.After(a.to))
}

// left notes that the engine does not answer any more. Its absence began when it first did not.
func (b *Backend) left(now time.Time) {
	if a := b.away.Load(); a == nil || !a.to.IsZero() {
		b.away.Store(&absence{from: now})
	}
}

// returned notes that the engine answers again.
func (b *Backend) returned(now time.Time) {
	if a := b.away.Load(); a != nil && a.to.IsZero() {
		b.away.Store(&absence{from: a.from, to: now})
	}
}
