package sched

import (
	"slices"
	"sync"
)

// fairshareOrder is the order in which users have their turn in a line of jobs.
type fairshareOrder struct {
	benches, shares int64 // which changes it has seen of what it follows from
	clients         []client
	sizes           []int // how many of each wait
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
	if known && o.benches == s.lines.changes && o.shares == s.shares.changes {
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
	o := fairshareOrder{benches: s.lines.changes, shares: s.shares.changes}
	for c := range s.lines.byClient[l] {
		o.clients = append(o.clients, c)
	}
	slices.SortFunc(o.clients, s.shares.compare)
	for _, c := range o.clients {
		o.sizes = append(o.sizes, s.lines.byClient[l][c].size())
	}
	return o
}

// ahead counts the jobs before one of a client if users take turns. own is how many of the client's own jobs go before
// it, at is the client's index in the order, and has says whether the client is in the line already.
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
