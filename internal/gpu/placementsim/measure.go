package placementsim

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// measure adds up what is used and what is lost while time passes.
type measure struct {
	demand map[string]float64 // how often each profile is asked for
	lost   map[*placement.Table][]float64

	share        float64   // of all GPUs, held now
	slots        []float64 // by node: free ones
	waste        []float64 // by node: those of them that are of no use
	free, wasted float64   // their sums

	passed, shareTime, freeTime, wastedTime float64
	made, reused                            int
}

func newMeasure(nodes []placement.Node, requests []request) measure {
	m := measure{
		demand: map[string]float64{}, lost: map[*placement.Table][]float64{}, slots: make([]float64, len(nodes)),
		waste: make([]float64, len(nodes)),
	}
	for _, r := range requests {
		if r.gpu.Mode == gpu.MIG {
			m.demand[r.gpu.Profile]++
		}
	}
	for i := range nodes {
		m.look(nodes, i)
	}
	return m
}

// held puts down that a node's share in use has changed.
func (m *measure) held(nodes []placement.Node, i int, share float64) {
	m.share += share
	m.look(nodes, i)
}

// look counts a node's free slots anew.
func (m *measure) look(nodes []placement.Node, i int) {
	n := &nodes[i]
	if n.Mode != gpu.MIG || n.Static {
		return
	}
	if m.lost[n.Table] == nil {
		m.lost[n.Table] = m.useless(n.Table)
	}
	free := float64(n.Table.Slots() - bits.OnesCount16(uint16(n.Busy)))
	waste := free * m.lost[n.Table][n.Busy]
	m.free += free - m.slots[i]
	m.wasted += waste - m.waste[i]
	m.slots[i], m.waste[i] = free, waste
}

// useless says for each set of busy slots what part of the free ones the requests of the trace cannot use, in the mean.
func (m *measure) useless(t *placement.Table) []float64 {
	parts, sum := make([]float64, 1<<t.Slots()), 0.0
	// in one order, so that the last digits are always the same
	for _, name := range slices.Sorted(maps.Keys(m.demand)) {
		weight := m.demand[name]
		if t.Name(name) == "" {
			continue
		}
		sum += weight
		for busy := range parts {
			parts[busy] += weight * t.Unusable(placement.Mask(busy), name)
		}
	}
	for busy := range parts {
		if sum > 0 {
			parts[busy] /= sum
		}
	}
	return parts
}

func (m *measure) pass(d time.Duration) {
	s := d.Seconds()
	m.passed += s
	m.shareTime += s * m.share
	m.freeTime += s * m.free
	m.wastedTime += s * m.wasted
}

// instance counts whether a slice that is placed on n is there already.
func (m *measure) instance(n *placement.Node, s gpu.Slice) {
	switch {
	case s.Mode != gpu.MIG:
	case slices.Contains(n.Ready, placement.Ready{Profile: s.Profile, Placement: s.Placement}):
		m.reused++
	default:
		m.made++
	}
}

func (m *measure) utilisation(gpus int) float64 {
	if m.passed == 0 {
		return 0
	}
	return m.shareTime / m.passed / float64(gpus)
}

// fragmentation is nil when there was nothing free that could be cut.
func (m *measure) fragmentation() *float64 {
	if m.freeTime == 0 {
		return nil
	}
	f := m.wastedTime / m.freeTime
	return &f
}

func wait(waited []time.Duration) Wait {
	if len(waited) == 0 {
		return Wait{}
	}
	sorted, sum := slices.Sorted(slices.Values(waited)), 0.0
	for _, w := range sorted {
		sum += w.Seconds()
	}
	at := func(part float64) float64 { return sorted[int(math.Ceil(part*float64(len(sorted))))-1].Seconds() }
	return Wait{Mean: sum / float64(len(sorted)), P50: at(0.5), P95: at(0.95)}
}
