package placement

import (
	"math"
	"math/bits"
	"slices"
	"testing"

	"slipway/internal/gpu"
)

// axis is one GPU as plainly as can be: which slots are taken.
type axis [MostSlots]bool

func axisOf(n *Node) (a axis) {
	for slot := range a {
		a[slot] = n.Busy>>slot&1 == 1
	}
	return a
}

func (a axis) free(at gpu.Placement) bool {
	return !slices.Contains(a[at.Start:at.Start+at.Size], true)
}

// loss is what the placement costs by the definition: the possible placements that go, weighted.
func loss(profiles []gpu.Profile, weights []float64, a axis, at gpu.Placement) float64 {
	b := a
	for slot := at.Start; slot < at.Start+at.Size; slot++ {
		b[slot] = true
	}
	sum := 0.0
	for i, p := range profiles {
		for _, other := range p.Placements {
			if a.free(other) && !b.free(other) {
				sum += weights[i] * float64(p.Compute) / float64(len(p.Placements))
			}
		}
	}
	return sum
}

// FuzzAgainstBruteForce places on up to three GPUs with any slots taken, and compares with a search through everything
// by slots.
func FuzzAgainstBruteForce(f *testing.F) {
	f.Add(uint8(0), uint16(0), uint16(0xff), uint16(3), uint8(2))
	f.Add(uint8(1), uint16(5), uint16(2), uint16(0), uint8(1))
	f.Add(uint8(2), uint16(0xfff), uint16(0x38), uint16(7), uint8(0))
	f.Fuzz(func(t *testing.T, kind uint8, one, two, three uint16, which uint8) {
		slots, profiles := 8, eight()
		switch kind % 3 {
		case 1:
			slots, profiles = 4, four()
		case 2:
			slots, profiles = 12, twelve()
		}
		c := table(t, slots, profiles)
		p := profiles[int(which)%len(profiles)]
		nodes := cuttable(c, 3)
		for i, busy := range []uint16{one, two, three} {
			nodes[i].Busy = Mask(busy) & Span(gpu.Placement{Size: slots})
		}
		for _, policy := range Policies() {
			e := New(policy, 0)
			i, s := e.Find(nodes, mig(p.Name))
			best, costs := math.Inf(1), map[[2]int]float64{}
			for k := range nodes {
				a := axisOf(&nodes[k])
				for _, at := range p.Placements {
					if !a.free(at) {
						continue
					}
					cost := 0.0
					switch policy {
					case First:
						cost = float64(k*100 + at.Start)
					case Pack:
						cost = float64(10000*(slots-bits.OnesCount16(uint16(nodes[k].Busy))) + k*100 + at.Start)
					default:
						empty := e.scoreOf(c).worth[0]
						cost = loss(profiles, e.demand.weights(c), a, at) + making*empty
						if nodes[k].Busy == 0 {
							cost += sparing * empty
						}
					}
					costs[[2]int{k, at.Start}] = cost
					best = min(best, cost)
				}
			}
			if (i < 0) != (len(costs) == 0) {
				t.Fatalf("%s: %s on %b %b %b is placed on %d, and there are %d places", policy, p.Name, nodes[0].Busy, nodes[1].Busy, nodes[2].Busy, i, len(costs))
			}
			if i < 0 {
				continue
			}
			cost, possible := costs[[2]int{i, s.Placement.Start}]
			if !possible || cost > best+10*nearly || s.GPU != nodes[i].UUID || s.Profile != p.Name || !slices.Contains(p.Placements, s.Placement) {
				t.Errorf("%s: %s is placed on %d as %+v at a cost of %g, possible %v, the least is %g", policy, p.Name, i, s, cost, possible, best)
			}
		}
	})
}
