package images

import (
	"sync"
	"time"
)

// grace is how long nothing is removed after its last use: a job that has just been given an environment is saved by
// then.
const grace = 15 * time.Minute

// pins keep environments and bases that are being used from a sweep that comes between, by their digests. They end with
// the service: so does whatever they are for.
type pins struct {
	mu    sync.Mutex
	held  map[string]int       // how many hold it now
	until map[string]time.Time // when it may go at the earliest
}

// keep lets nothing remove a digest before a time. It is called before it is looked whether the files are there: then
// they stay.
func (g *pins) keep(digest string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keepLocked(digest, until)
}

func (g *pins) keepLocked(digest string, until time.Time) {
	if g.until == nil {
		g.held, g.until = map[string]int{}, map[string]time.Time{}
	}
	if until.After(g.until[digest]) {
		g.until[digest] = until
	}
}

// hold lets nothing remove a digest until it is released, and for a while after.
func (g *pins) hold(digest string, now func() time.Time) (release func()) {
	g.keep(digest, now().Add(grace))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held[digest]++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.held[digest]--; g.held[digest] == 0 {
			delete(g.held, digest)
		}
		g.keepLocked(digest, now().Add(grace))
	})
}

// isHeld says whether somebody reads it now.
func (g *pins) isHeld(digest string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held[digest] > 0
}

// end is when a digest may go at the earliest, as far as is known now.
func (g *pins) end(digest string, now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held[digest] > 0 {
		return now.Add(grace)
	}
	return g.until[digest]
}

// unless removes what nobody has a grip on: nobody can take hold of it meanwhile. asked is when it was asked
// what else may need it.
func (g *pins) unless(digest string, asked time.Time, remove func() error) (removed bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held[digest] > 0 || asked.Before(g.until[digest]) {
		return false, nil
	}
	delete(g.until, digest)
	return true, remove()
}

// Hold keeps an environment from being removed while it is read for another place, whatever becomes of its records.
func (l *Library) Hold(digest string) (release func()) { return l.pins.hold(digest, l.cfg.Now) }

// keepFor keeps an environment or a base for some time from now.
func (l *Library) keepFor(digest string, d time.Duration) { l.pins.keep(digest, l.cfg.Now().Add(d)) }
