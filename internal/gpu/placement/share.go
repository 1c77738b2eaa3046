package placement

import (
	"strings"

	"slipway/internal/gpu"
)

// suits reports whether a node is of the kind that r asks for, however full.
func (n *Node) suits(r *gpu.Request) bool {
	return n.Mode == r.Mode && r.Needs == (gpu.Needs{}) && n.isolates(r) && n.named(r.Model)
}

func (n *Node) isolates(r *gpu.Request) bool {
	least := r.LeastTier()
	return n.Tier == least || n.Tier.AtLeast(least)
}

// named reports whether part is in the model's name, in any case.
func (n *Node) named(part string) bool {
	if part == "" {
		return true
	}
	for i := 0; i+len(part) <= len(n.Model); i++ {
		if strings.EqualFold(n.Model[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// part is the memory that r gets on a shared GPU. One that names none gets an equal part, so that all who may come have
// room.
func (n *Node) part(r *gpu.Request) int64 {
	if r.Memory > 0 {
		return r.Memory
	}
	return n.Memory / int64(max(1, n.AtOnce))
}

// fits says how many of r find room on n now, when n is not cut.
func (n *Node) fits(r *gpu.Request) int {
	switch n.Mode {
	case gpu.Whole:
		return max(0, 1-n.Held)
	case gpu.MPS:
		if n.EqualShares && n.Held > 0 && (r.Percent != n.Share.Percent || r.Memory != n.Share.Memory) {
			return 0
		}
		return n.times(r.Percent, r.Memory)
	case gpu.Shared:
		// Who names no group trusts nobody.
		switch {
		case r.Group == "":
			return min(1, n.times(0, n.part(r)), max(0, 1-n.Held))
		case n.Held > 0 && n.Group != r.Group:
			return 0
		}
		return n.times(0, n.part(r))
	default:
		return 0
	}
}

// times counts how often so much fits beside what is held.
func (n *Node) times(percent int, memory int64) int {
	k := n.AtOnce - n.Held
	if percent > 0 {
		k = min(k, (100-n.PercentHeld)/percent)
	}
	if memory > 0 {
		k = min(k, int((n.Memory-n.MemoryHeld)/memory))
	}
	return max(0, k)
}

// left says how much of n stays free once r has its place, from 0 to 1: the fullest GPU is best. What is free of one
// kind and not of the other is of little use to anybody.
func (n *Node) left(r *gpu.Request) float64 {
	switch n.Mode {
	case gpu.MPS:
		processors := float64(100-n.PercentHeld-r.Percent) / 100
		memory := float64(n.Memory-n.MemoryHeld-r.Memory) / float64(n.Memory)
		return max(processors, memory)
	case gpu.Shared:
		return float64(n.AtOnce-n.Held-1) / float64(n.AtOnce)
	default:
		return 0
	}
}
