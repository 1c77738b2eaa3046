package fleet

import (
	"fmt"
	"slices"

	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// Inventory tells what there is, who holds what of it, and how it is used. It asks the engine who holds what, and so
// must not be called under the engine's lock.
func (f *Fleet) Inventory() gpu.Inventory {
	now, leases := f.now.Load(), f.cfg.Held()
	inv := gpu.Inventory{System: now.system, Taken: now.taken, Problem: now.fault}
	for _, v := range now.views {
		inv.GPUs = append(inv.GPUs, f.state(v, leases, now.system.Simulated))
	}
	return inv
}

func (f *Fleet) state(v *view, leases []gpu.Lease, simulated bool) gpu.State {
	s := gpu.State{
		Device: v.device, Mode: v.rule.Mode, Tier: v.node.Tier, Condition: v.condition, Why: v.why, Drain: v.drain,
		Reading: v.reading,
		Offers:  []gpu.Offer{}, Slices: []gpu.SliceState{},
	}
	var on []gpu.Lease
	var held []gpu.Slice
	for _, l := range leases {
		if l.Slice.GPU == v.device.UUID {
			on, held = append(on, l), append(held, l.Slice)
		}
	}
	if i := slices.IndexFunc(held, func(h gpu.Slice) bool { return h.Mode != s.Mode }); i >= 0 && s.Condition == gpu.Ready {
		s.Condition = gpu.Unset
		s.Why = fmt.Sprintf(
			"%s is still held on it in mode %s: it is given out as %s once that has ended", held[i].Name, held[i].Mode,
			s.Mode,
		)
	}
	s.Offers = append(s.Offers, v.offers(held)...)
	s.Slices = append(s.Slices, f.heldSlices(v, on)...)
	s.Slices = append(s.Slices, v.freeSlices(held)...)
	for i := range s.Slices {
		s.Slices[i].Slice.Simulated = simulated
	}
	slices.SortStableFunc(
		s.Slices, func(a, b gpu.SliceState) int { return a.Slice.Placement.Start - b.Slice.Placement.Start },
	)
	return s
}

// offers counts what can be had of a GPU.
func (v *view) offers(held []gpu.Slice) []gpu.Offer {
	n, ok := v.beside(held)
	ok = ok && v.usable
	empty := []placement.Node{v.empty()}
	var all []gpu.Offer
	for _, r := range v.menu(n) {
		o := gpu.Offer{Name: r.String(), Tier: v.node.Tier}
		_, o.Most = placement.Count(empty, r)
		if ok {
			o.Free, _ = placement.Count([]placement.Node{n}, r)
		}
		all = append(all, o)
	}
	return all
}

// menu returns the requests by which a GPU is offered.
func (v *view) menu(n placement.Node) []gpu.Request {
	var all []gpu.Request
	switch v.rule.Mode {
	case gpu.MIG:
		for _, p := range v.device.Profiles {
			all = append(all, gpu.Request{Mode: gpu.MIG, Profile: p.Name})
		}
	case gpu.MPS:
		if n.EqualShares && n.Held > 0 {
			return []gpu.Request{{Mode: gpu.MPS, Percent: n.Share.Percent, Memory: n.Share.Memory}}
		}
		for _, percent := range []int{10, 25, 50, 100} {
			gib := v.device.Memory * int64(percent) / 100 >> 30
			all = append(all, gpu.Request{Mode: gpu.MPS, Percent: percent, Memory: max(1, gib) << 30})
		}
	case gpu.Shared:
		group := n.Group
		if n.Held == 0 {
			group = "any" // a group trusts its own
		}
		all = append(all, gpu.Request{Mode: gpu.Shared, Group: group})
	default:
		all = append(all, gpu.Request{Mode: gpu.Whole})
	}
	for i := range all {
		all[i].Least = v.node.Tier
	}
	return all
}

// heldSlices tells what is held of a GPU.
func (f *Fleet) heldSlices(v *view, leases []gpu.Lease) []gpu.SliceState {
	var all []gpu.SliceState
	for _, l := range leases {
		s := gpu.SliceState{Slice: l.Slice, Holder: l.Holder, Lent: l.Lent, Since: l.Since}
		if f.cfg.Use != nil {
			s.Use = f.cfg.Use(l.Holder)
		}
		if l.Slice.Mode == gpu.MIG {
			v.identify(&s)
		}
		all = append(all, s)
	}
	return all
}

// identify finds the instance that a held slice stands for.
func (v *view) identify(s *gpu.SliceState) {
	for _, in := range slices.Concat(v.own, v.foreign) {
		if in.Placement == s.Slice.Placement && in.Profile == s.Slice.Profile {
			gi := in.GI
			s.UUID, s.GI = in.UUID, &gi
			return
		}
	}
}

// freeSlices tells what lies on a GPU that nobody here holds: ready instances, those of others, and what is
// quarantined.
func (v *view) freeSlices(held []gpu.Slice) []gpu.SliceState {
	var all []gpu.SliceState
	for i, in := range slices.Concat(v.own, v.foreign) {
		if slices.ContainsFunc(held, func(s gpu.Slice) bool { return s.Mode == gpu.MIG && s.Placement == in.Placement }) {
			continue
		}
		gi := in.GI
		s := gpu.SliceState{
			Slice: slice(v.device, placement.Ready{Profile: in.Profile, Placement: in.Placement}), UUID: in.UUID,
			GI: &gi,
		}
		s.Foreign = i >= len(v.own)
		v.remark(&s, in)
		all = append(all, s)
	}
	for _, q := range v.quarantines {
		if slices.ContainsFunc(all, func(s gpu.SliceState) bool { return s.Slice.Placement == q.Slice.Placement && s.Quarantined != nil }) {
			continue
		}
		until := q.Until
		all = append(all, gpu.SliceState{Slice: q.Slice, Quarantined: &until, Why: q.Why, Since: q.Since})
	}
	return all
}

// remark says what keeps an instance that nobody holds from being used.
func (v *view) remark(s *gpu.SliceState, in gpu.Instance) {
	for _, q := range v.quarantines {
		if q.Slice.Placement == in.Placement {
			until := q.Until
			s.Quarantined, s.Why, s.Since = &until, q.Why, q.Since
			return
		}
	}
	for _, l := range v.leftovers {
		if l.GI == in.GI {
			s.Why = fmt.Sprintf("process %d of %s is still on it", l.PID, l.holder)
			return
		}
	}
	for _, p := range v.strangers {
		if p.GI == in.GI {
			s.Why = fmt.Sprintf("used by process %d, which no workload has started", p.PID)
			return
		}
	}
	if !complete(in) {
		s.Why = "left over from a change that went wrong: it is removed when its place is needed"
	}
}
