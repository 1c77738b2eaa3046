// Package publish writes the inventory of GPUs in the words of others: HTCondor's ClassAds as condor_gpu_discovery
// prints them, the names that CMS looks for, and GLUE 2.1.
//
// It promises to be pure, and to publish only what a stranger may be given: unless told otherwise, what is free on GPUs
// that are ready. It names no user and no workload. What is not known is left out.
package publish

import (
	"slices"
	"strings"

	"slipway/internal/gpu"
)

// Options say what is published, and how. The zero Options are those of condor_gpu_discovery -properties.
type Options struct {
	All     bool // held and resting parts too, with SlipwayFree: to look at, not to feed a startd with
	Own     bool // Slipway's attributes too
	Names   bool // only the names of the GPUs: no -properties
	Flat    bool // -not-nested
	Mixed   bool // -mixed: no common attributes
	Extra   bool // -extra
	Dynamic bool // -dynamic: temperature, power, ECC errors
	Config  bool // -config: as configuration

	Tag      string // -tag; empty: GPUs
	Prefix   string // -prefix of common attributes that are not nested; empty: CUDA
	Resource string // GLUE: the resource's name, such as "gpu01.example.org"; empty: localhost
}

// unit is what is published as one GPU: a physical one, or a MIG instance.
type unit struct {
	system gpu.System
	state  gpu.State
	slice  *gpu.SliceState // mig
	free   bool
	lent   bool
	used   gpu.Source
	bare   bool // its UUID is told without "GPU-"
}

// id is how HTCondor calls it: what CUDA_VISIBLE_DEVICES takes. That of a MIG instance cannot be shortened.
func (u unit) id() string {
	if u.slice != nil {
		return u.slice.UUID
	}
	return gpu.ShortUUID(u.state.Device.UUID)
}

// units returns what is published, in the order in which condor_gpu_discovery lists it: MIG instances by UUID, then
// GPUs.
func units(inv gpu.Inventory, all bool) []unit {
	cut := slices.ContainsFunc(inv.GPUs, func(s gpu.State) bool { return s.Device.MIGEnabled })
	var whole, instances []unit
	for _, s := range inv.GPUs {
		if s.Condition != gpu.Ready && !all {
			continue
		}
		if s.Device.MIGEnabled {
			instances = append(instances, instancesOf(inv.System, s, all)...)
			continue
		}
		u := unit{system: inv.System, state: s, bare: !cut}
		for _, held := range s.Slices {
			u.take(held)
		}
		if all || roomOn(s) {
			u.free = roomOn(s)
			whole = append(whole, u)
		}
	}
	slices.SortFunc(instances, func(a, b unit) int { return strings.Compare(a.slice.UUID, b.slice.UUID) })
	return append(instances, whole...)
}

// take adds what is known of a part of a unit.
func (u *unit) take(s gpu.SliceState) {
	u.lent = u.lent || s.Lent != ""
	if s.Use.Source != gpu.SourceNone {
		u.used = s.Use.Source
	}
}

// instancesOf returns the MIG instances that are there. What might yet be cut out has no UUID, and nobody can be sent
// there.
func instancesOf(system gpu.System, s gpu.State, all bool) []unit {
	var us []unit
	for _, part := range s.Slices {
		held := part.Holder != "" || part.Foreign || part.Quarantined != nil
		if part.UUID == "" || held && !all {
			continue
		}
		u := unit{system: system, state: s, slice: &part, free: !held && s.Condition == gpu.Ready}
		u.take(part)
		us = append(us, u)
	}
	return us
}

// roomOn reports whether a GPU that is not cut can take somebody.
func roomOn(s gpu.State) bool {
	busy := func(p gpu.SliceState) bool { return p.Holder != "" || p.Foreign || p.Quarantined != nil }
	if s.Mode == gpu.MPS || s.Mode == gpu.Shared {
		return s.Condition == gpu.Ready && slices.ContainsFunc(s.Offers, func(o gpu.Offer) bool { return o.Free > 0 })
	}
	return s.Condition == gpu.Ready && !slices.ContainsFunc(s.Slices, busy)
}
