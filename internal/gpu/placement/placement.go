// Package placement decides where on a site's GPUs a slice is cut out, and says in plain words why it cannot be.
//
// It promises to be pure: no I/O, no clock, no driver. It works on masks of the slots and on the tables that the GPUs'
// own driver reports, never on a table of ours. What it places lies on free slots only, in the mode that the GPU has,
// with at least the isolation that was asked for; it refuses rather than give less. It keeps no record of who holds
// what: its caller tells it at each call.
package placement

import (
	"math"
	"sync"

	"slipway/internal/gpu"
)

// Policy says which of several possible places is taken.
type Policy string

// The policies.
const (
	Frag  Policy = "frag"  // where the least of what is usually asked for becomes impossible
	Pack  Policy = "pack"  // on the fullest GPU that has room, as low as possible
	First Policy = "first" // on the first GPU that has room, as low as possible
)

// Policies returns all policies, the usual first.
func Policies() []Policy { return []Policy{Frag, Pack, First} }

// Node is one GPU that may be leased from, with what is taken on it.
type Node struct {
	UUID, Model string
	Mode        gpu.Mode
	Tier        gpu.Tier // of its slices
	Memory      int64    // bytes
	SMs         int

	Table  *Table   // mig: what its model can be cut into
	Busy   Mask     // mig: slots that are leased, foreign, or quarantined
	Cut    []string // mig: the profiles of the instances on those slots, one entry each
	Ready  []Ready  // mig: own instances that are there and free
	Static bool     // mig: only Ready may be used, nothing is created

	AtOnce      int       // mps, shared: most workloads
	Held        int       // whole, mps, shared: how many there are
	PercentHeld int       // mps: by them together
	MemoryHeld  int64     // mps, shared: by them together
	EqualShares bool      // mps: all shares of the GPU must be equal, for its daemon knows only one limit
	Share       gpu.Slice // mps with EqualShares and Held > 0: what the others have
	Group       string    // shared with Held > 0: whose the GPU is
}

// Ready is an instance that is cut out and free.
type Ready struct {
	Profile   string
	Placement gpu.Placement
}

// Engine places requests by one policy. It learns from those that it is told of. Its methods may be called at once.
type Engine struct {
	policy   Policy
	headroom float64

	mu     sync.Mutex
	demand demand
	scores map[*Table]*score
}

// New makes an engine. Headroom is how much an empty GPU is spared, from 0 to 1: with 1 it is cut into only when no
// other has room.
func New(policy Policy, headroom float64) *Engine {
	return &Engine{policy: policy, headroom: headroom, demand: newDemand(), scores: map[*Table]*score{}}
}

// Note tells the engine of a request, once for each, placed or not: what was asked for lately is what is kept possible.
func (e *Engine) Note(r gpu.Request) {
	if r.Mode != gpu.MIG {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.demand.note(r.Profile) {
		clear(e.scores)
	}
}

// spot is a place that a request could have on a node. The lowest cost wins; of equal ones the first that was seen.
type spot struct {
	cost  float64
	shape int // mig: in the node's table
	mask  Mask
}

// nearly is how much lower a cost must be to count as lower: sums of the same numbers differ in their last digits.
const nearly = 1e-9

// Place finds a place for r: the node's number and the slice there. When there is none the number is -1 and lacks says
// why, and what would help.
func (e *Engine) Place(nodes []Node, r gpu.Request) (i int, s gpu.Slice, lacks string) {
	if i, s = e.Find(nodes, r); i < 0 {
		lacks = refusal(nodes, r)
	}
	return i, s, lacks
}

// Find is Place for who needs no reason: it allocates nothing but the names of MPS and sized shared slices.
func (e *Engine) Find(nodes []Node, r gpu.Request) (i int, s gpu.Slice) {
	e.mu.Lock()
	i, at := e.best(nodes, &r)
	e.mu.Unlock()
	if i < 0 {
		return -1, gpu.Slice{}
	}
	return i, nodes[i].slice(&r, at)
}

func (e *Engine) best(nodes []Node, r *gpu.Request) (int, spot) {
	best, at := -1, spot{cost: math.Inf(1)}
	var a asked
	for i := range nodes {
		n := &nodes[i]
		if !n.suits(r) {
			continue
		}
		if s, ok := e.spot(n, r, &a); ok && s.cost < at.cost-nearly {
			best, at = i, s
			if e.policy == First {
				break
			}
		}
	}
	return best, at
}

// spot finds the best place of r on n.
func (e *Engine) spot(n *Node, r *gpu.Request, a *asked) (spot, bool) {
	if r.Mode == gpu.MIG {
		if a.table != n.Table {
			e.ask(n.Table, r.Profile, a)
		}
		if a.shape < 0 {
			return spot{}, false
		}
		return e.cut(n, a)
	}
	if n.fits(r) < 1 {
		return spot{}, false
	}
	s := spot{cost: n.left(r)}
	if n.Held == 0 {
		s.cost += e.headroom
	}
	return s, true
}

// slice makes the slice of r at a place on n.
func (n *Node) slice(r *gpu.Request, at spot) gpu.Slice {
	s := gpu.Slice{GPU: n.UUID, Model: n.Model, Mode: n.Mode, Tier: n.Tier, Memory: n.Memory, SMs: n.SMs}
	switch n.Mode {
	case gpu.MIG:
		p := &n.Table.shapes[at.shape]
		s.Name, s.Profile, s.Memory, s.SMs = p.Name, p.Name, p.Memory, p.SMs
		s.Placement = at.mask.placement()
	case gpu.MPS:
		s.Name, s.Percent, s.Memory = r.String(), r.Percent, r.Memory
		s.SMs = max(1, n.SMs*r.Percent/100)
	case gpu.Shared:
		s.Name, s.Memory, s.Group = r.String(), n.part(r), r.Group
	default:
		s.Name = r.String()
	}
	return s
}
