// Package pin keeps what is in use from garbage collection: a job that is being submitted, a session that starts, an
// image that is being read.
//
// It promises that nothing is removed while it is held, nor for a while after, and that nobody can take hold of what is
// being removed. It must not know what a digest names.
package pin

import (
	"sync"
	"time"
)

// Grace is how long nothing is removed after its last use: a job that has just been given an environment is saved by
// then.
const Grace = 15 * time.Minute

// Set keeps environments and bases that are being used from a sweep that comes between, by their digests. They end with
// the service: so does whatever they are for.
type Set struct {
	mu    sync.Mutex
	held  map[string]int       // how many hold it now
	until map[string]time.Time // when it may go at the earliest
}

// Keep lets nothing remove a digest before a time. It is called before it is looked whether the files are there: then
// they stay.
func (g *Set) Keep(digest string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keepLocked(digest, until)
}

func (g *Set) keepLocked(digest string, until time.Time) {
	if g.until == nil {
		g.held, g.until = map[string]int{}, map[string]time.Time{}
	}
	if until.After(g.until[digest]) {
		g.until[digest] = until
	}
}

// Hold lets nothing remove a digest until it is released, and for a while after.
func (g *Set) Hold(digest string, now func() time.Time) (release func()) {
	g.Keep(digest, now().Add(Grace))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held[digest]++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.held[digest]--; g.held[digest] == 0 {
			delete(g.held, digest)
		}
		g.keepLocked(digest, now().Add(Grace))
	})
}

// IsHeld says whether somebody reads it now.
func (g *Set) IsHeld(digest string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held[digest] > 0
}

// End is when a digest may go at the earliest, as far as is known now.
func (g *Set) End(digest string, now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held[digest] > 0 {
		return now.Add(Grace)
	}
	return g.until[digest]
}

// Unless removes what nobody has pinned: nobody can take hold of it meanwhile. asked is when it was asked
// what else may need it.
func (g *Set) Unless(digest string, asked time.Time, remove func() error) (removed bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held[digest] > 0 || asked.Before(g.until[digest]) {
		return false, nil
	}
	delete(g.until, digest)
	return true, remove()
}
