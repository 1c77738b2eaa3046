package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"slipway/internal/gpu"
)

// busyFleet is a fleet that stands as after a while of coming and going, and requests for it.
func busyFleet(t testing.TB, e *Engine, count int) ([]Node, []gpu.Request) {
	c := table(t, 8, eight())
	nodes, dice := cuttable(c, count), rand.New(rand.NewPCG(7, 7))
	var requests []gpu.Request
	names := []string{"1g.18gb", "1g", "2g.35gb", "3g.71gb", "1g.35gb", "2g", "1g.18gb", "4g.71gb"}
	type held struct {
		node  int
		slice gpu.Slice
	}
	var all []held
	for i := range 40 * count {
		r := mig(names[dice.IntN(len(names))])
		requests = append(requests, r)
		e.Note(r)
		if n, s := e.Find(nodes, r); n >= 0 {
			nodes[n].Take(s)
			all = append(all, held{n, s})
		}
		if i%3 > 0 && len(all) > 0 {
			k := dice.IntN(len(all))
			nodes[all[k].node].Give(all[k].slice)
			all[k] = all[len(all)-1]
			all = all[:len(all)-1]
		}
	}
	return nodes, requests
}

// A decision is one call of Find: where, on all the GPUs of the fleet, with their busy slots and ready instances, a
// request goes, or that it goes nowhere.
func BenchmarkDecision(b *testing.B) {
	for _, policy := range Policies() {
		for _, count := range []int{1, 8, 100} {
			b.Run(fmt.Sprintf("%s/%d", policy, count), func(b *testing.B) {
				e := New(policy, 0.1)
				nodes, requests := busyFleet(b, e, count)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					e.Find(nodes, requests[i%len(requests)])
					i++
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}

// BenchmarkLearning is a decision with its note, and the new weights that this brings about every so often.
func BenchmarkLearning(b *testing.B) {
	e := New(Frag, 0.1)
	nodes, requests := busyFleet(b, e, 8)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r := requests[i%len(requests)]
		e.Note(r)
		e.Find(nodes, r)
		i++
	}
}

func TestDecisionsAllocateNothing(t *testing.T) {
	for _, policy := range Policies() {
		e := New(policy, 0.1)
		nodes, requests := busyFleet(t, e, 8)
		requests = append(requests, gpu.Request{Mode: gpu.MIG, Profile: "1g", Model: "h200"}, gpu.Request{Mode: gpu.Whole}, mig("9g"))
		nodes = append(nodes, Node{Mode: gpu.Whole, Tier: gpu.Hardware, Model: "NVIDIA H200"})
		i := 0
		if n := testing.AllocsPerRun(500, func() { e.Find(nodes, requests[i%len(requests)]); i++ }); n != 0 {
			t.Errorf("%s: %g allocations a decision", policy, n)
		}
	}
}
