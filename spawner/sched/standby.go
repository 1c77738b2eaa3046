package sched

import (
	"slices"

	"slipway/spawner"
)

// Standbys returns those that may still be taken of which is true, the oldest first. Reads only.
func (s *Scheduler) Standbys(is func(w *spawner.Workload) bool) (list []*spawner.Workload) {
	for id := range s.standbys {
		if w := s.work[id]; w.IsStandby() && is(w) {
			list = append(list, w)
		}
	}
	slices.SortFunc(list, func(a, b *spawner.Workload) int { return a.Created.Compare(b.Created) })
	return list
}

// InTheWay returns the standbys without which somebody who waits would have room: no more than it takes, the oldest
// first; none where all of them would not be enough, or those that are ending are.
func (s *Scheduler) InTheWay(waits *spawner.Workload) []*spawner.Workload {
	if waits.Remote || len(s.standbys) == 0 {
		return nil
	}
	all := s.Standbys(func(*spawner.Workload) bool { return true })
	fits := func(some []*spawner.Workload) bool {
		return s.fitsWithout(
			waits,
			s.StandbysHolding(func(w *spawner.Workload) bool { return !w.IsStandby() || slices.Contains(some, w) }),
		)
	}
	if !fits(all) {
		return nil
	}
	for n := len(all) - 1; n >= 0; n-- { // each stays that can, the newest first
		if rest := slices.Delete(slices.Clone(all), n, n+1); fits(rest) {
			all = rest
		}
	}
	return all
}

// fitsWithout reports whether there would be room for w if some workloads held nothing.
func (s *Scheduler) fitsWithout(w *spawner.Workload, some []spawner.Workload) bool {
	if s.ledger.plus(-1, some).lacks(w.Backend, w.Spec.Resources) != "" {
		return false
	}
	if w.LocalGPU().None() {
		return true
	}
	if s.cfg.GPUs == nil {
		return false
	}
	_, lacks := s.cfg.GPUs.Place(w.Spec.GPU, slices.Concat(s.slices.heldBeside(some), shunned(*w)))
	return lacks == ""
}

// StandbysHolding returns those of the standbys that hold something, also while they end, of which is true. Reads only.
func (s *Scheduler) StandbysHolding(is func(w *spawner.Workload) bool) (list []spawner.Workload) {
	for id := range s.standbys {
		if w := s.work[id]; holds(*w) && is(w) {
			list = append(list, *w)
		}
	}
	return list
}

// AwaitedBy returns who is next in a line of this host and could do with what w would hold; nil: nobody. Who waits for
// something else alone is kept from nothing.
func (s *Scheduler) AwaitedBy(w *spawner.Workload, g Grant) *spawner.Workload {
	after := s.ledger.plus(1, []spawner.Workload{*w})
	for l := range s.lines.byAge {
		first := s.head(l)
		if s.ledger.remote[l.backend] || first == nil || s.stuck(first.LocalGPU()) ||
			s.barred(associationOf(*first), l) {
			continue
		}
		noRoom := s.ledger.together(w.Backend, first.Backend) && after.lacks(first.Backend, first.Spec.Resources) != ""
		if noRoom || g.Slice != nil && !first.LocalGPU().None() && g.wouldDo(first.Spec.GPU) {
			return first
		}
	}
	return nil
}
