package homes

import "sync"

// Alarm remembers how full whose directories were, so that each is told once of each mark that it goes beyond. It is
// safe for concurrent use.
type Alarm struct {
	marks []int // percent, rising
	keep  func(what string, mark int)

	mu     sync.Mutex // held while keep runs, so that what is kept last is what was seen last
	passed map[string]int
}

// NewAlarm makes an Alarm that knows which marks were passed. It calls keep with each change; a mark of 0 is to be
// forgotten.
func NewAlarm(marks []int, passed map[string]int, keep func(what string, mark int)) *Alarm {
	return &Alarm{marks: marks, passed: passed, keep: keep}
}

// calm is how far below a mark, in percent, it must fall before it is told anew: what lies on the edge is not told of
// all the time.
const calm = 2

// See notes how full something is, and gives the mark that it has gone beyond since it was last seen; 0: none.
func (a *Alarm) See(what string, percent int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, now := a.passed[what], 0
	for _, mark := range a.marks {
		if percent >= mark || mark <= before && percent > mark-calm {
			now = mark
		}
	}
	if now != before {
		a.keep(what, now)
	}
	if now == 0 {
		delete(a.passed, what)
	} else {
		a.passed[what] = now
	}
	if now > before {
		return now
	}
	return 0
}
