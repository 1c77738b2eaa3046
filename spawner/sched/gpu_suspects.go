package sched

import (
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

// gpuSuspects are the parts of GPUs that one user's workload found bad. A user can make any test fail in her own
// container, so her word alone takes nothing away from others: a part in doubt is given last, and it is condemned when
// a workload of somebody else finds it bad too. One that passes ends the doubt. They are lost with the service, which
// costs a repetition.
type gpuSuspects map[place]gpuSuspect

type gpuSuspect struct {
	slice gpu.Slice
	by    spawner.Principal
	since time.Time
}

// suspectLasts is for how long a doubt counts.
const suspectLasts = 24 * time.Hour

// add notes that a user's workload found a part bad. It reports true when another one's had, so that the part is to be
// condemned.
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

// out is what keeps a part from being given when it stands among those that are held. Of a GPU that several use at
// once, all is out.
func out(s gpu.Slice) gpu.Slice {
	if s.Mode == gpu.MPS || s.Mode == gpu.Shared {
		s.Mode = ""
	}
	return s
}

// Suspect notes that a user's workload found a part bad. It reports true when another one's had, so that the part is to
// be condemned.
func (s *Scheduler) Suspect(part gpu.Slice, by spawner.Principal, now time.Time) (condemn bool) {
	return s.suspects.add(part, by, now)
}

// Trust ends the doubts of a part on which a workload has just come up.
func (s *Scheduler) Trust(part gpu.Slice) { delete(s.suspects, placeOf(part)) }

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

// place finds a part for w: none that it shuns, and one in doubt only where there is no other.
func (s *Scheduler) place(w *spawner.Workload) (gpu.Slice, string) {
	held := slices.Concat(s.slices.held(), shunned(*w))
	if doubted := s.suspects.list(time.Now()); len(doubted) > 0 {
		if part, lacks := s.cfg.GPUs.Place(w.Spec.GPU, slices.Concat(held, doubted)); lacks == "" {
			return part, ""
		}
	}
	return s.cfg.GPUs.Place(w.Spec.GPU, held)
}

// partLacks reports whether there is no part of a GPU for w now.
func (s *Scheduler) partLacks(w *spawner.Workload) bool {
	_, lacks := s.cfg.GPUs.Place(w.Spec.GPU, slices.Concat(s.slices.held(), shunned(*w)))
	return lacks != ""
}

// Spent reports whether w, of which Turn says q, is next and waits though what it wants is free, only for having found
// that bad. It must not keep the line waiting, and its word does not take the part away from others: so it is to fail.
func (s *Scheduler) Spent(w *spawner.Workload, q spawner.Queue) bool {
	if q.Place == 0 || len(shunned(*w)) == 0 || s.cfg.GPUs == nil || s.head(lineOf(*w)) != w || !s.partLacks(w) {
		return false
	}
	_, lacks := s.cfg.GPUs.Place(w.Spec.GPU, s.slices.held())
	return lacks == ""
}
