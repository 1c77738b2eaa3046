package metering

import (
	"slices"
	"time"

	"slipway/internal/gpu"
)

// Use says how much a workload uses, or used, of its slice. The zero Use with a reason is of one that is not known.
func (s *Sampler) Use(holder string) gpu.Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[holder]
	if r == nil {
		return gpu.Use{Unknown: "there is no measurement of it yet"}
	}
	return r.use(time.Now(), s.cfg, s.gap())
}

// Series returns the history of a workload's use, the oldest first; nil when there is none.
func (s *Sampler) Series(holder string) []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[holder]
	if r == nil {
		return nil
	}
	now := time.Now()
	return r.history.points(now.Add(-now.Sub(s.began)).Round(time.Second)) // where the clock says now that it began
}

// Idle says since when a workload's slice has been idle, zero when it is not, and by what that was judged. Where known
// is false nobody can say: then the slice is not to be called idle, nor busy.
func (s *Sampler) Idle(holder string) (since time.Time, source gpu.Source, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[holder]
	if r == nil {
		return time.Time{}, gpu.SourceNone, false
	}
	since, known = r.watch.idle(time.Now(), s.cfg.IdleAfter, s.gap())
	return since, r.last.source, known
}

// Reading returns the last reading of a GPU; false when it could not be read, or not for long.
func (s *Sampler) Reading(uuid string) (gpu.Reading, time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.gpus[uuid]
	if m == nil || m.at.IsZero() || m.fault != "" || time.Since(m.at) > s.gap() {
		return gpu.Reading{}, time.Time{}, false
	}
	return m.reading, m.at, true
}

// Fill returns inv with readings and uses. It does not change inv.
func (s *Sampler) Fill(inv gpu.Inventory) gpu.Inventory {
	inv.GPUs = slices.Clone(inv.GPUs)
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		g.Reading = nil
		if r, _, ok := s.Reading(g.Device.UUID); ok {
			g.Reading = &r
		}
		g.Slices = slices.Clone(g.Slices)
		for j := range g.Slices {
			if holder := g.Slices[j].Holder; holder != "" {
				g.Slices[j].Use = s.Use(holder)
			}
		}
	}
	return inv
}
