package placement

import (
	"fmt"
	"slices"
	"strings"

	"slipway/internal/gpu"
	"slipway/internal/units"
)

// Never says in words why r can never be had of these GPUs, whoever holds what; empty when it can.
func Never(nodes []Node, r gpu.Request) string {
	name := asRequested(r)
	if len(nodes) == 0 {
		return name + " asked, and there is no GPU that may be used"
	}
	if r.Mode == gpu.Any || r.Needs != (gpu.Needs{}) {
		return name + " asked, and a host's own GPUs are asked for by mode alone, such as whole: needs are for a batch system"
	}
	ofMode := pick(pointers(nodes), func(n *Node) bool { return n.Mode == r.Mode })
	if len(ofMode) == 0 {
		return fmt.Sprintf(
			"%s asked, and %s; there is %s", name, noneIn(r.Mode),
			list(pointers(nodes), func(n *Node) string { return string(n.Mode) }),
		)
	}
	ofModel := pick(ofMode, func(n *Node) bool { return n.named(r.Model) })
	if len(ofModel) == 0 {
		return fmt.Sprintf(
			"%s asked on %q, and no GPU for it is one; there is %s", name, r.Model, list(ofMode, modelOf),
		)
	}
	isolated := pick(ofModel, func(n *Node) bool { return n.isolates(&r) })
	if len(isolated) == 0 {
		return fmt.Sprintf("%s asked with isolation %s or better, and the GPUs for it have %s: ask for that, or for another mode",
			name, r.LeastTier(), list(ofModel, func(n *Node) string { return string(n.Tier) }))
	}
	if slices.ContainsFunc(isolated, func(n *Node) bool { return mostOf(n.count(&r)) > 0 }) {
		return ""
	}
	return tooMuch(isolated, r)
}

func modelOf(n *Node) string { return n.Model }

// asRequested writes r, also when it asks for nothing.
func asRequested(r gpu.Request) string {
	if r.None() {
		return "no GPU"
	}
	return r.String()
}

func noneIn(m gpu.Mode) string {
	switch m {
	case gpu.MIG:
		return "no GPU is cut into MIG instances"
	case gpu.MPS:
		return "no GPU is shared by MPS"
	case gpu.Shared:
		return "no GPU is shared by time slicing"
	default:
		return "no GPU is given out whole"
	}
}

// tooMuch says why nodes of the right kind cannot have r even when they are empty.
func tooMuch(nodes []*Node, r gpu.Request) string {
	if r.Mode == gpu.MIG {
		return fmt.Sprintf(
			"%s asked, and no GPU is cut so; there is %s", r, strings.Join(profiles(nodes, mostOf), ", "),
		)
	}
	var memory int64
	for _, n := range nodes {
		memory = max(memory, n.Memory)
	}
	return fmt.Sprintf("%s asked, and the largest GPU in mode %s has %s", r, r.Mode, units.MemoryWords(memory))
}

// refusal says why r cannot be had now, and what would help.
func refusal(nodes []Node, r gpu.Request) string {
	if why := Never(nodes, r); why != "" {
		return why
	}
	_, most := Count(nodes, r)
	why := fmt.Sprintf("%s asked, 0 of %d free", r, most)
	if help := instead(pick(pointers(nodes), func(n *Node) bool { return n.suits(&r) }), r); help != "" {
		why += "; " + help
	}
	return why
}

// instead says what nodes could give now in place of r.
func instead(nodes []*Node, r gpu.Request) string {
	switch r.Mode {
	case gpu.MIG:
		if free := profiles(nodes, freeOf); len(free) > 0 {
			return "free now: " + strings.Join(free, ", ")
		}
	case gpu.MPS:
		return insteadMPS(nodes, r)
	case gpu.Shared:
		return insteadShared(nodes, r)
	}
	return ""
}

func insteadMPS(nodes []*Node, r gpu.Request) string {
	var best gpu.Request
	for _, n := range nodes {
		some := gpu.Request{
			Mode: gpu.MPS, Percent: min(r.Percent, 100-n.PercentHeld), Memory: min(r.Memory, n.Memory-n.MemoryHeld),
		}
		if n.EqualShares && n.Held > 0 {
			some.Percent, some.Memory = n.Share.Percent, n.Share.Memory
		}
		if some.Percent < 1 || some.Memory < 1 || n.fits(&some) < 1 ||
			float64(some.Percent)*float64(some.Memory) <= float64(best.Percent)*float64(best.Memory) {
			continue
		}
		best = some
	}
	if best.None() {
		return ""
	}
	return best.String() + " is free now"
}

func insteadShared(nodes []*Node, r gpu.Request) string {
	others := len(pick(nodes, func(n *Node) bool { return n.Held > 0 && (n.Group != r.Group || r.Group == "") }))
	var memory int64
	for _, n := range pick(nodes, func(n *Node) bool { return n.Held == 0 || n.Group == r.Group && r.Group != "" }) {
		if n.Held < n.AtOnce {
			memory = max(memory, n.Memory-n.MemoryHeld)
		}
	}
	switch {
	case memory > 0:
		return "shared/" + units.FormatMemory(memory) + " is free now"
	case others > 0:
		return fmt.Sprintf("%d of %d GPUs are with other groups", others, len(nodes))
	default:
		return ""
	}
}

func mostOf(_, most int) int { return most }
func freeOf(free, _ int) int { return free }

// profiles returns the profiles that MIG nodes have some of, in the order of their tables.
func profiles(nodes []*Node, of func(free, most int) int) []string {
	var names []string
	for _, n := range nodes {
		if n.Table == nil {
			continue
		}
		for _, s := range n.Table.shapes {
			if !slices.Contains(names, s.Name) && of(n.count(&gpu.Request{Mode: gpu.MIG, Profile: s.Name})) > 0 {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

func pick(nodes []*Node, keep func(*Node) bool) []*Node {
	var kept []*Node
	for _, n := range nodes {
		if keep(n) {
			kept = append(kept, n)
		}
	}
	return kept
}

func pointers(nodes []Node) []*Node {
	all := make([]*Node, len(nodes))
	for i := range nodes {
		all[i] = &nodes[i]
	}
	return all
}

// list names what nodes have, each once.
func list(nodes []*Node, of func(*Node) string) string {
	var words []string
	for _, n := range nodes {
		if w := of(n); !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return strings.Join(words, ", ")
}
