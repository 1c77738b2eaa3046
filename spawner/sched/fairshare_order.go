package sched

import (
	"slices"
	"sync"
)

// fairshareOrder is the order in which users have their turn in a line of jobs.
type fairshareOrder struct {
	lines, shares int64 // which changes it has seen of what it follows from
	associations  []association
	sizes         []int // how many of each wait
}

// fairshareOrders remembers that order for as long as it holds. Many are asked for their places between two changes:
// what each costs must not be a look at all that users have had.
type fairshareOrders struct {
	mu sync.Mutex // those who ask are many at once
	of map[line]fairshareOrder
}

// fairshareOrder returns the order in a line of jobs.
func (s *Scheduler) fairshareOrder(l line) fairshareOrder {
	s.orders.mu.Lock()
	defer s.orders.mu.Unlock()
	o, known := s.orders.of[l]
	if known && o.lines == s.lines.changes && o.shares == s.shares.changes {
		return o
	}
	o = s.lineUp(l)
	if s.orders.of == nil {
		s.orders.of = map[line]fairshareOrder{}
	}
	s.orders.of[l] = o
	return o
}

func (s *Scheduler) lineUp(l line) fairshareOrder {
	o := fairshareOrder{lines: s.lines.changes, shares: s.shares.changes}
	for c := range s.lines.byAssociation[l] {
		o.associations = append(o.associations, c)
	}
	slices.SortFunc(o.associations, s.shares.compare)
	for _, c := range o.associations {
		o.sizes = append(o.sizes, s.lines.byAssociation[l][c].size())
	}
	return o
}

// ahead counts the jobs before one of an association if users take turns. own is how many of the association's own jobs
// go before it, at is the association's index in the order, and has says whether it is in the line already.
func (o fairshareOrder) ahead(own, at int, has bool) int {
	n := own
	for i, size := range o.sizes {
		switch {
		case i < at:
			n += min(size, own+1)
		case i > at || !has:
			n += min(size, own)
		}
	}
	return n
}
