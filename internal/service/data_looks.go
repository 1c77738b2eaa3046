package service

import (
	"sync"
	"time"

	"slipway/spawner"
)

const (
	lookTime   = 75 * time.Second // after that nothing is being looked at any more
	againEvery = time.Minute      // between two looks that somebody asks for
	tellEvery  = 10 * time.Minute // between two lines about a session's data among its events
)

// dataLooks is what is remembered of the looks at sessions' data beside what they found, for as long as there is the
// session.
type dataLooks struct {
	mu sync.Mutex
	of map[spawner.ID]*dataLook
}

type dataLook struct {
	asked time.Time // to look again
	going bool      // nothing has come of that yet
	said  string    // to the session's people
	told  time.Time // when that was
}

func (l *dataLooks) get(id spawner.ID) *dataLook {
	if l.of == nil {
		l.of = map[spawner.ID]*dataLook{}
	}
	if l.of[id] == nil {
		l.of[id] = &dataLook{}
	}
	return l.of[id]
}

// know takes note of a session of which there is a report.
func (l *dataLooks) know(id spawner.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.get(id)
}

// begin reports whether a look is to be asked for now. When not, and wait is zero, one goes on.
func (l *dataLooks) begin(id spawner.ID, now time.Time) (begins bool, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch one := l.get(id); {
	case one.going && now.Sub(one.asked) < lookTime:
		return false, 0
	case now.Sub(one.asked) < againEvery:
		return false, againEvery - now.Sub(one.asked)
	default:
		one.asked, one.going = now, true
		return true, 0
	}
}

// failed takes back that a look has begun.
func (l *dataLooks) failed(id spawner.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.get(id)
	one.asked, one.going = time.Time{}, false
}

// ended takes what a look found amiss in words, and reports whether that is to be told.
func (l *dataLooks) ended(id spawner.ID, words string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.get(id)
	one.going = false
	if words == "" {
		one.said = ""
	}
	if words == one.said || now.Sub(one.told) < tellEvery {
		return false
	}
	one.said, one.told = words, now
	return true
}

func (l *dataLooks) running(id spawner.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.of[id]
	return one != nil && one.going && now.Sub(one.asked) < lookTime
}

// drop forgets sessions that are gone, and names them.
func (l *dataLooks) drop(gone func(spawner.ID) bool) (dropped []spawner.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.of {
		if gone(id) {
			dropped = append(dropped, id)
			delete(l.of, id)
		}
	}
	return dropped
}
