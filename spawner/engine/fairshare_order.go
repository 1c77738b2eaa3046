package engine

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

// fairshareOrders remembers that order for as long as it holds. Many are asked for their places between two changes: what each costs must not
// be a look at all that users have had.
type fairshareOrders struct {
	mu sync.Mutex // those who ask hold the Manager's lock together
	of map[line]fairshareOrder
}

// fairshareOrderLocked returns the order in a line of jobs.
func (m *Manager) fairshareOrderLocked(l line) fairshareOrder {
	m.fairshareOrders.mu.Lock()
	defer m.fairshareOrders.mu.Unlock()
	s, known := m.fairshareOrders.of[l]
	if known && s.benches == m.index.changes && s.shares == m.shares.changes {
		return s
	}
	s = m.lineUpLocked(l)
	if m.fairshareOrders.of == nil {
		m.fairshareOrders.of = map[line]fairshareOrder{}
	}
	m.fairshareOrders.of[l] = s
	return s
}

func (m *Manager) lineUpLocked(l line) fairshareOrder {
	s := fairshareOrder{benches: m.index.changes, shares: m.shares.changes}
	for c := range m.index.shares[l] {
		s.clients = append(s.clients, c)
	}
	slices.SortFunc(s.clients, m.shares.compare)
	for _, c := range s.clients {
		s.sizes = append(s.sizes, m.index.shares[l][c].size())
	}
	return s
}

// ahead counts who goes before one of a client, of whose own so many do, if users take turns. at is the client's place, and has whether
// she has one in this line already.
func (s fairshareOrder) ahead(own, at int, has bool) int {
	n := own
	for i, size := range s.sizes {
		switch {
		case i < at:
			n += min(size, own+1)
		case i > at || !has:
			n += min(size, own)
		}
	}
	return n
}
