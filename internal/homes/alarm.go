package homes

import "slices"

// Alarm remembers how full whose directories were, so that each is told once of each mark that it goes beyond. It is not safe for
// concurrent use.
type Alarm struct {
	Marks  []int // percent, rising
	passed map[string]int
}

// calm is how far below a mark, in percent, it must fall before it is told anew: what lies on the edge is not told of all the time.
const calm = 2

// See notes how full something is, and gives the mark that it has gone beyond since it was last seen; 0: none.
func (a *Alarm) See(what string, percent int) int {
	if a.passed == nil {
		a.passed = map[string]int{}
	}
	before, now := a.passed[what], 0
	for _, mark := range a.Marks {
		if percent >= mark || mark <= before && percent > mark-calm {
			now = mark
		}
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

// Keep forgets all but what is named.
func (a *Alarm) Keep(what []string) {
	for known := range a.passed {
		if !slices.Contains(what, known) {
			delete(a.passed, known)
		}
	}
}
