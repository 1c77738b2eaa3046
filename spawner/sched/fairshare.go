package sched

import (
	"cmp"
	"math"
	"time"

	"slipway/spawner"
)

// What a use is counted by.
const (
	// halfLife is the time in which what a user has had comes to count half as much.
	halfLife = 24 * time.Hour
	// shareAhead is for how long what jobs hold now counts in advance: who is given several places at once has the next
	// only after others.
	shareAhead = time.Minute
)

// shares are what users have had of a backend of late: the integral over time of the largest part of it that their jobs
// held, which halves in each half-life. Of those who wait, whoever has had least goes first. It changes only when jobs
// begin and end and at a tick, so that between two of these the order is the same for all who look.
type shares struct {
	half time.Duration
	of   map[association]*share
	jobs map[spawner.ID]held // that hold something
	seq  int64
	// changes counts what may have changed the order.
	changes int64
}

// held is what a job holds.
type held struct {
	of   association
	part float64 // of its backend, from 0 to 1
}

type share struct {
	use    float64 // in seconds of all there is
	at     time.Time
	held   float64 // now
	count  int     // of the jobs that hold it
	served int64   // the number, in one count over all users, of this user's latest job that got resources. 0: none yet
	came   int64   // the number, in a count of its own, of this user's first job that is known
}

func newShares(half time.Duration) shares {
	return shares{half: half, of: map[association]*share{}, jobs: map[spawner.ID]held{}}
}

// meet notes that there is a job, by which its owner has a place among others.
func (s *shares) meet(w spawner.Workload, now time.Time) *share {
	c := associationOf(w)
	if s.of[c] == nil {
		s.of[c] = &share{at: now, came: w.Turn}
		s.changes++
	}
	return s.of[c]
}

// hold notes that a job holds a part of its backend from now on.
func (s *shares) hold(w spawner.Workload, part float64, now time.Time) {
	if _, known := s.jobs[w.ID]; known {
		return
	}
	mine := s.meet(w, now)
	mine.settle(now, s.half)
	s.seq++
	s.changes++
	mine.held, mine.count, mine.served = mine.held+part, mine.count+1, s.seq
	s.jobs[w.ID] = held{associationOf(w), part}
}

// drop notes that a job holds nothing any more, and reports whether it did until now.
func (s *shares) drop(id spawner.ID, now time.Time) bool {
	h, known := s.jobs[id]
	if !known {
		return false
	}
	delete(s.jobs, id)
	s.changes++
	mine := s.of[h.of]
	mine.settle(now, s.half)
	if mine.held, mine.count = mine.held-h.part, mine.count-1; mine.count == 0 {
		mine.held = 0 // and with it what sums of decimal fractions have gone astray
	}
	return true
}

// tick brings all up to now.
func (s *shares) tick(now time.Time) {
	s.changes++
	for _, mine := range s.of {
		if mine.settle(now, s.half); mine.count == 0 && mine.use < negligible {
			mine.use = 0
		}
	}
}

// negligible is a use of which nothing is left, in seconds.
const negligible = 1e-3

// settle brings a use up to now. A clock that was set back while the service was down takes nothing away.
func (s *share) settle(now time.Time, half time.Duration) {
	passed := max(now.Sub(s.at), 0)
	left := math.Exp2(-float64(passed) / float64(half))
	s.use = s.use*left + s.held*half.Seconds()/math.Ln2*(1-left)
	s.at = now
}

// compare says which of two associations of one backend goes first.
func (s *shares) compare(a, b association) int { return s.get(a).compare(s.get(b), a.of, b.of) }

// get returns what an association has had.
func (s *shares) get(c association) *share {
	if mine := s.of[c]; mine != nil {
		return mine
	}
	return &share{}
}

// compare says whether s, of a, goes before o, of b.
func (s *share) compare(o *share, a, b spawner.Principal) int {
	return cmp.Or(
		cmp.Compare(s.worth(), o.worth()), cmp.Compare(s.served, o.served), cmp.Compare(s.came, o.came),
		cmp.Compare(a.Hub, b.Hub), cmp.Compare(a.User, b.User),
	)
}

// worth is what a use counts in line.
func (s *share) worth() float64 { return s.use + s.held*shareAhead.Seconds() }

// What a backend without a limit is taken to have, by which shares of it are compared.
var nominal = spawner.Capacity{CPUs: 64, Memory: 256 << 30}

// part returns the largest part of what its backend has that a workload takes.
func (l ledger) part(w spawner.Workload) float64 {
	most := capacityShare(l.capacity[w.Backend], w.Spec.Resources)
	if !w.Remote {
		most = max(most, capacityShare(l.capacity[spawner.Host], w.Spec.Resources), w.LocalGPU().Part())
	}
	if most == 0 {
		most = capacityShare(nominal, w.Spec.Resources)
	}
	return most
}

// capacityShare returns the largest part of c that r takes; 0 where c does not limit it.
func capacityShare(c spawner.Capacity, r spawner.Resources) float64 {
	most := 0.0
	if c.CPUs > 0 {
		most = max(most, r.CPUs/c.CPUs)
	}
	if c.Memory > 0 {
		most = max(most, float64(r.Memory)/float64(c.Memory))
	}
	if c.Count > 0 {
		most = max(most, 1/float64(c.Count))
	}
	return most
}
