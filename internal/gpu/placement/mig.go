package placement

import (
	"math/bits"

	"slipway/internal/gpu"
)

// asked is a request's profile on one table, kept from node to node for they mostly share it.
type asked struct {
	table *Table
	shape int     // -1: the table does not have it
	score *score  // frag only
	empty float64 // frag only: what an empty GPU is worth
}

func (e *Engine) ask(t *Table, profile string, a *asked) {
	*a = asked{table: t, shape: -1}
	if t == nil {
		return
	}
	a.shape = t.find(profile)
	if e.policy == Frag {
		a.score = e.scoreOf(t)
		a.empty = a.score.worth[0]
	}
}

// Small costs, in parts of what an empty GPU is worth. To make an instance, and to destroy ready ones for it, takes a
// second or so each and is what goes wrong most often: among places that are nearly as good, a ready instance is used.
// To cut into an empty GPU costs a little whatever headroom the site wants. Measured over the mixes of the simulator's
// tests: without the first, a fifth more instances are made; without the second, 0.2 % less is accepted.
const (
	making     = 0.001
	destroying = 0.001
	sparing    = 0.05
)

// cut finds the best place on n for a profile.
func (e *Engine) cut(n *Node, a *asked) (spot, bool) {
	s := &a.table.shapes[a.shape]
	ready, others := n.ready(s.Name)
	best, found := spot{}, false
	for _, m := range s.spots {
		isReady := ready&m.lowest() != 0
		if n.Busy&m != 0 || n.Static && !isReady || s.limit > 0 && !isReady && n.kin(s.kin, m) >= s.limit {
			continue
		}
		at := spot{cost: e.cost(n, a, m, isReady, others), shape: a.shape, mask: m}
		if !found || at.cost < best.cost-nearly {
			best, found = at, true
		}
	}
	return best, found
}

// cost says what it costs to place at m.
func (e *Engine) cost(n *Node, a *asked, m Mask, isReady bool, others Mask) float64 {
	if e.policy != Frag {
		return e.plain(n, isReady)
	}
	if n.Static {
		return 0
	}
	cost := a.score.worth[n.Busy] - a.score.worth[n.Busy|m]
	if n.Busy == 0 {
		cost += (sparing + e.headroom) * a.empty
	}
	if !isReady {
		cost += making * a.empty
		if others&m != 0 {
			cost += destroying * a.empty
		}
	}
	return cost
}

// plain is the cost for those policies that look at how full a GPU is, or at nothing. On the GPU itself a ready
// instance is best.
func (e *Engine) plain(n *Node, isReady bool) float64 {
	cost := 0.0
	if e.policy == Pack {
		cost = float64(n.Table.slots - bits.OnesCount16(uint16(n.Busy)))
		if n.Busy == 0 {
			cost += e.headroom * float64(n.Table.slots)
		}
	}
	if !isReady {
		cost += less
	}
	return cost
}

// less is a cost that matters only between places that are equal in slots.
const less = 0.25

// ready returns the lowest slots of the ready instances of a profile, and all slots of ready instances.
func (n *Node) ready(profile string) (starts, slots Mask) {
	for i := range n.Ready {
		r := &n.Ready[i]
		m := Span(r.Placement)
		slots |= m
		if r.Profile == profile {
			starts |= m.lowest()
		}
	}
	return starts, slots
}

// kin counts the instances that use the same engines, when one is made at m: ready ones that must give way do not
// count.
func (n *Node) kin(word string, m Mask) int {
	count := 0
	for _, name := range n.Cut {
		if kin(name) == word {
			count++
		}
	}
	for _, r := range n.Ready {
		if kin(r.Profile) == word && Span(r.Placement)&m == 0 {
			count++
		}
	}
	return count
}

func (m Mask) lowest() Mask { return m & -m }

func (m Mask) placement() gpu.Placement {
	return gpu.Placement{Start: bits.TrailingZeros16(uint16(m)), Size: bits.OnesCount16(uint16(m))}
}
