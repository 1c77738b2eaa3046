package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// place names a part of a GPU, whoever has it.
type place struct {
	gpu  string
	mode gpu.Mode
	at   gpu.Placement
}

func placeOf(s gpu.Slice) place { return place{s.GPU, s.Mode, s.Placement} }

// gpuSuspects are the parts of GPUs that one user's workload found bad. A user can make any test fail in her own container, so her word
// alone takes nothing away from others: a part in doubt is given last, and it is condemned when a workload of somebody else finds it
// bad too. One that passes ends the doubt. They are lost with the service, which costs a repetition. The Manager's lock guards them.
type gpuSuspects map[place]gpuSuspect

type gpuSuspect struct {
	slice gpu.Slice
	by    spawner.Principal
	since time.Time
}

// suspectLasts is for how long a doubt counts.
const suspectLasts = 24 * time.Hour

// add notes that a user's workload found a part bad. It reports true when another one's had, so that the part is to be condemned.
func (d gpuSuspects) add(s gpu.Slice, by spawner.Principal, now time.Time) (condemn bool) {
	p := placeOf(s)
	maps.DeleteFunc(d, func(_ place, old gpuSuspect) bool { return now.Sub(old.since) >= suspectLasts })
	if old, ok := d[p]; ok && old.by != by {
		delete(d, p)
		return true
	}
	d[p] = gpuSuspect{s, by, now}
	return false
}

// list returns the parts in doubt, as if they were held.
func (d gpuSuspects) list(now time.Time) []gpu.Slice {
	var all []gpu.Slice
	for _, doubt := range d {
		if now.Sub(doubt.since) < suspectLasts {
			all = append(all, out(doubt.slice))
		}
	}
	return all
}

// out is what keeps a part from being given when it stands among those that are held. Of a GPU that several use at once, all is out.
func out(s gpu.Slice) gpu.Slice {
	if s.Mode == gpu.MPS || s.Mode == gpu.Shared {
		s.Mode = ""
	}
	return s
}

// trustLocked ends the doubts of a part on which a workload has just come up.
func (m *Manager) trustLocked(e *entry) {
	if e.Slice != nil {
		delete(m.gpuSuspects, placeOf(*e.Slice))
	}
}

// shunned returns the parts that a start is not to have again, as if they were held.
func shunned(w spawner.Workload) []gpu.Slice {
	var all []gpu.Slice
	for _, b := range w.Bad {
		if b.Shun {
			all = append(all, out(b.Slice))
		}
	}
	return all
}

// placeLocked finds a part for e: none that it shuns, and one in doubt only where there is no other.
func (m *Manager) placeLocked(e *entry) (gpu.Slice, string) {
	held := slices.Concat(m.slices.held(), shunned(e.Workload))
	if doubted := m.gpuSuspects.list(time.Now()); len(doubted) > 0 {
		if s, lacks := m.cfg.GPUs.Place(e.Spec.GPU, slices.Concat(held, doubted)); lacks == "" {
			return s, ""
		}
	}
	return m.cfg.GPUs.Place(e.Spec.GPU, held)
}

// partLacksLocked reports whether there is no part of a GPU for e now.
func (m *Manager) partLacksLocked(e *entry) bool {
	_, lacks := m.cfg.GPUs.Place(e.Spec.GPU, slices.Concat(m.slices.held(), shunned(e.Workload)))
	return lacks != ""
}

// spentLocked reports whether the next in line waits though what it wants is free, only for having found that bad. It must not keep
// the line waiting, and its word does not take the part away from others: so it fails.
func (m *Manager) spentLocked(e *entry, q spawner.Queue) (spawner.Outcome, bool) {
	if q.Place == 0 || len(shunned(e.Workload)) == 0 || m.cfg.GPUs == nil || m.headLocked(lineOf(e.Workload)) != e || !m.partLacksLocked(e) {
		return spawner.Outcome{}, false
	}
	if _, lacks := m.cfg.GPUs.Place(e.Spec.GPU, m.slices.held()); lacks != "" {
		return spawner.Outcome{}, false
	}
	return unusable(e.Bad), true
}

// disputeLocked ends leases that were saved though the store said they were not, as one may that fails in the middle: somebody else
// has got the place meanwhile. Nothing was done for a workload that is only Leased, so it goes back in line; the youngest first.
func (m *Manager) disputeLocked(ctx context.Context) error {
	var leased []*entry
	for _, e := range m.work {
		if e.Phase == spawner.Leased && e.Slice != nil {
			leased = append(leased, e)
		}
	}
	slices.SortFunc(leased, func(a, b *entry) int { return byAge(ticketOf(b.Workload), ticketOf(a.Workload)) })
	for _, e := range leased {
		if !m.slices.disputed(e.ID) {
			continue
		}
		m.log.Warn("a lease is given up: the store has it though another has the place", "id", e.ID, "slice", e.Slice)
		if err := m.changeLocked(ctx, e, func(e *entry) { e.Phase, e.Slice, e.Lender = spawner.Pending, nil, "" }); err != nil {
			return err
		}
	}
	return nil
}

// disputed reports whether somebody else has the place of id too, and neither lends it to the other; or has borrowed it too.
func (b sliceBook) disputed(id spawner.ID) bool {
	e := b[id]
	for other, o := range b {
		if other == id || !o.clashes(e.Slice) {
			continue
		}
		if rivals := b.lent(e) == b.lent(o); rivals || e.lender != other && o.lender != id {
			return true
		}
	}
	return false
}

// clashes reports whether two leases cannot be at once.
func (e sliceEntry) clashes(s gpu.Slice) bool {
	switch {
	case e.GPU != s.GPU:
		return false
	case e.Mode != s.Mode:
		return true
	case s.Mode == gpu.MIG:
		a, b := e.Placement, s.Placement
		return a.Start < b.Start+b.Size && b.Start < a.Start+a.Size
	}
	return s.Mode == gpu.Whole
}
