package placement

import (
	"slices"

	"slipway/internal/gpu"
)

// Count says how many of r could be had now, and on empty GPUs.
func Count(nodes []Node, r gpu.Request) (free, most int) {
	for i := range nodes {
		if n := &nodes[i]; n.suits(&r) {
			f, m := n.count(&r)
			free, most = free+f, most+m
		}
	}
	return free, most
}

func (n *Node) count(r *gpu.Request) (free, most int) {
	if n.Mode != gpu.MIG {
		empty := n.empty()
		return n.fits(r), empty.fits(r)
	}
	if n.Table == nil {
		return 0, 0
	}
	i := n.Table.find(r.Profile)
	if i < 0 {
		return 0, 0
	}
	s := &n.Table.shapes[i]
	if n.Static {
		return n.countStatic(s.Name)
	}
	free, most = s.room(n.Busy), s.room(0)
	if s.limit > 0 {
		// Ready instances of the same engines are used, or give way one by one.
		free, most = min(free, s.limit-n.kinHeld(s)), min(most, s.limit)
	}
	return max(0, free), most
}

// kinHeld counts what keeps the engines of s for good: what is held, and what is ready of other profiles on other slots
// than s can use.
func (n *Node) kinHeld(s *shape) int {
	used := 0
	for _, name := range n.Cut {
		if kin(name) == s.kin {
			used++
		}
	}
	for _, r := range n.Ready {
		if kin(r.Profile) != s.kin || r.Profile == s.Name {
			continue
		}
		givesWay := func(m Mask) bool { return m&n.Busy == 0 && m&Span(r.Placement) != 0 }
		if !slices.ContainsFunc(s.spots, givesWay) {
			used++
		}
	}
	return used
}

func (n *Node) countStatic(profile string) (free, most int) {
	for _, r := range n.Ready {
		if r.Profile == profile && Span(r.Placement)&n.Busy == 0 {
			free++
		}
		if r.Profile == profile {
			most++
		}
	}
	for _, name := range n.Cut {
		if name == profile {
			most++
		}
	}
	return free, most
}

// empty returns n without what is held on it. It is for GPUs that are not cut.
func (n *Node) empty() Node {
	e := *n
	e.Held, e.PercentHeld, e.MemoryHeld, e.Share, e.Group = 0, 0, 0, gpu.Slice{}, ""
	return e
}

// Take puts down that s, which was placed on n, is held. A ready instance at its place is used, those in its way are
// gone.
func (n *Node) Take(s gpu.Slice) {
	switch n.Mode {
	case gpu.MIG:
		m := Span(s.Placement)
		n.Busy |= m
		n.Cut = append(n.Cut, s.Profile)
		n.Ready = slices.DeleteFunc(n.Ready, func(r Ready) bool { return Span(r.Placement)&m != 0 })
		return
	case gpu.MPS:
		n.PercentHeld += s.Percent
		n.MemoryHeld += s.Memory
		n.Share = s
	case gpu.Shared:
		n.MemoryHeld += s.Memory
		n.Group = s.Group
	}
	n.Held++
}

// Give puts down that s is held no more. Its instance stays, ready for the next.
func (n *Node) Give(s gpu.Slice) {
	switch n.Mode {
	case gpu.MIG:
		n.Busy &^= Span(s.Placement)
		if i := slices.Index(n.Cut, s.Profile); i >= 0 {
			n.Cut = slices.Delete(n.Cut, i, i+1)
		}
		n.Ready = append(n.Ready, Ready{Profile: s.Profile, Placement: s.Placement})
		return
	case gpu.MPS:
		n.PercentHeld -= s.Percent
		n.MemoryHeld -= s.Memory
	case gpu.Shared:
		n.MemoryHeld -= s.Memory
	}
	if n.Held--; n.Held == 0 {
		*n = n.empty()
	}
}
