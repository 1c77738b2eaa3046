package placement

import (
	"fmt"
	"math"
	"testing"

	"slipway/internal/gpu"
)

// What is asked for often is what is kept possible.
func TestEngineLearns(t *testing.T) {
	c := table(t, 8, eight())
	where := func(asked string) gpu.Placement {
		e := New(Frag, 0)
		for range 1000 {
			e.Note(mig(asked))
		}
		_, s := e.Find(cuttable(c, 1), mig("3g.71gb"))
		return s.Placement
	}
	if at := where("4g"); at.Start != 4 {
		t.Errorf("3g lies at %d where 4g, which has only 0, is asked for", at.Start)
	}
	if at := where("1g.35gb"); at.Start != 0 && at.Start != 4 {
		t.Errorf("3g lies at %d", at.Start)
	}
}

func TestDemandIsBounded(t *testing.T) {
	d := newDemand()
	for i := range 100_000 {
		d.note(fmt.Sprintf("1g.%dgb", i))
		if len(d.counts) > 2*window {
			t.Fatalf("%d names are kept after %d requests", len(d.counts), i)
		}
	}
	e := New(Frag, 0)
	e.Note(gpu.Request{Mode: gpu.Whole})
	if len(e.demand.counts) != 0 {
		t.Error("whole GPUs count among profiles")
	}
}

func TestWeightsAreShares(t *testing.T) {
	for name, c := range tables(t) {
		d := newDemand()
		for i := range 200 {
			d.note([]string{"1g", "1g+me", "9g", "2g"}[i%4])
			sum := 0.0
			for _, w := range d.weights(c) {
				sum += w
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Fatalf("%s: the weights are %g together", name, sum)
			}
		}
	}
}

// The demand of yesterday is forgotten within some hundred requests.
func TestDemandFades(t *testing.T) {
	c, d := table(t, 8, eight()), newDemand()
	for range 10 * window {
		d.note("7g")
	}
	for range 4 * window {
		d.note("1g")
	}
	w := d.weights(c)
	if w[c.find("1g")] < 5*w[c.find("7g")] {
		t.Errorf("1g weighs %g, 7g %g", w[c.find("1g")], w[c.find("7g")])
	}
}
