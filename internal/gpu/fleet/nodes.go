package fleet

import (
	"fmt"
	"slices"
	"strings"

	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// beside returns the node of a view with what is held on it; false when its GPU is still held in another mode.
func (v *view) beside(held []gpu.Slice) (placement.Node, bool) {
	n := v.node
	n.Ready, n.Cut = slices.Clone(n.Ready), slices.Clone(n.Cut)
	for i := range held {
		if held[i].GPU != n.UUID {
			continue
		}
		if held[i].Mode != n.Mode {
			return placement.Node{}, false
		}
		n.Take(held[i])
	}
	for _, s := range v.ghosts {
		n.Take(s)
	}
	return n, true
}

// empty returns the node of a view as if nothing were on it.
func (v *view) empty() placement.Node {
	n := v.node
	if !n.Static {
		n.Busy, n.Cut, n.Ready = 0, nil, nil
	}
	return n
}

// nodes returns what may be leased from now, and in words what may not.
func (s *snapshot) nodes(held []gpu.Slice) (nodes []placement.Node, without []string) {
	for _, v := range s.views {
		n, ok := v.beside(held)
		switch {
		case !v.usable:
			without = append(without, v.excuse())
		case !ok:
			without = append(without, fmt.Sprintf("GPU %d is still held in another mode", v.device.Index))
		default:
			nodes = append(nodes, n)
		}
	}
	return nodes, without
}

// excuse says to users why a GPU is not there for them. The administrator reads more in the inventory.
func (v *view) excuse() string {
	words := map[gpu.Condition]string{
		gpu.Ready: "does not answer", gpu.Occupied: "is used from outside Slipway", gpu.Drained: "is out of service",
		gpu.Gone:  "is lost",
		gpu.Unset: "is not set up",
	}
	return fmt.Sprintf("GPU %d %s", v.device.Index, words[v.condition])
}

// all returns every GPU that may be used some day, empty.
func (s *snapshot) all() []placement.Node {
	var nodes []placement.Node
	for _, v := range s.views {
		if v.possible {
			nodes = append(nodes, v.empty())
		}
	}
	return nodes
}

// Asked notes that r was asked for, so that cuts leave room for what is asked for often.
func (f *Fleet) Asked(r gpu.Request) { f.engine.Note(r) }

// Place finds a place for r beside what is held; lacks says in words why there is none now. It is quick and does no
// I/O.
func (f *Fleet) Place(r gpu.Request, held []gpu.Slice) (gpu.Slice, string) {
	now := f.now.Load()
	if now.fault != "" {
		return gpu.Slice{}, fmt.Sprintf("%s asked, and the GPUs cannot be asked now: %s", r, now.fault)
	}
	nodes, without := now.nodes(held)
	i, s, lacks := f.engine.Place(nodes, r)
	if i < 0 {
		return gpu.Slice{}, now.lacks(r, nodes, without, lacks)
	}
	s.Simulated = now.system.Simulated
	return s, ""
}

// lacks adds to the words of the placement engine which GPUs it was not shown.
func (s *snapshot) lacks(r gpu.Request, nodes []placement.Node, without []string, lacks string) string {
	if len(without) == 0 {
		return lacks
	}
	if placement.Never(nodes, r) != "" && placement.Never(s.all(), r) == "" {
		lacks = r.String() + " asked, and the GPUs that have it cannot be used now"
	}
	return lacks + "; " + strings.Join(without, ", ")
}

// Never says in words why r can never be had of these GPUs, whoever holds what; empty when it can, or when they could
// not be asked yet. A GPU that is lost or sick may come back; one that is in the wrong mode, and may not be switched,
// does not.
func (f *Fleet) Never(r gpu.Request) string {
	now := f.now.Load()
	if len(now.views) == 0 && now.fault != "" {
		return ""
	}
	why := placement.Never(now.all(), r)
	if why == "" {
		return ""
	}
	for _, v := range now.views {
		if !v.possible {
			why += "; " + v.excuse()
		}
	}
	return why
}

// Count says how many of r could be had now, and on empty GPUs. It is quick and does no I/O.
func (f *Fleet) Count(r gpu.Request, held []gpu.Slice) (free, most int) {
	now := f.now.Load()
	for _, v := range now.views {
		if !v.usable && v.condition != gpu.Occupied {
			continue
		}
		e := v.empty()
		_, m := placement.Count([]placement.Node{e}, r)
		most += m
		if n, ok := v.beside(held); ok && v.usable && now.fault == "" {
			n, _ := placement.Count([]placement.Node{n}, r)
			free += n
		}
	}
	return free, most
}
