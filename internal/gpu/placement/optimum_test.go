package placement

import (
	"math"
	"testing"
)

// mix is how often each profile of eight is asked for.
type mix [6]float64

func mixes() map[string]mix {
	return map[string]mix{
		"notebook": {.55, .05, .20, .12, .03, .05},
		"mixed":    {.30, .10, .20, .20, .10, .10},
		"no 7g":    {.45, .10, .25, .15, .05, 0},
	}
}

// world is one GPU as a Markov chain: requests come at a rate, each is held for an exponential time of mean 1, and who
// finds no place is lost. A state is the set of placements that are held.
type world struct {
	table   *Table
	mix     mix
	rate    float64
	states  []uint32       // sets of placements
	number  map[uint32]int // of a state
	spots   []Mask         // of a placement
	shapes  []int          // of a placement
	compute []float64      // of a profile
	busy    []Mask         // of a state
}

func newWorld(t testing.TB, m mix, load float64) *world {
	w := &world{table: table(t, 8, eight()), mix: m, number: map[uint32]int{}}
	mean := 0.0
	for i, s := range w.table.shapes {
		for _, spot := range s.spots {
			w.spots, w.shapes = append(w.spots, spot), append(w.shapes, i)
		}
		w.compute = append(w.compute, float64(s.Compute))
		mean += m[i] * float64(s.Compute)
	}
	w.rate = load * 7 / mean
	w.walk(0, 0, 0)
	return w
}

// walk finds all states that extend one by placements from a number on.
func (w *world) walk(state uint32, busy Mask, from int) {
	w.number[state] = len(w.states)
	w.states, w.busy = append(w.states, state), append(w.busy, busy)
	for p := from; p < len(w.spots); p++ {
		if busy&w.spots[p] == 0 {
			w.walk(state|1<<p, busy|w.spots[p], p+1)
		}
	}
}

// choice picks one of a profile's placements in a state, -1 for none.
type choice func(state, profile int) int

// value solves the chain for the mean slices that are won in a unit of time, and gives it as a part of those asked for.
// Without a choice it takes the best one in every state.
func (w *world) value(choose choice, mayRefuse bool) float64 {
	const most = 7
	total := w.rate + most
	asked := 0.0
	for i, p := range w.mix {
		asked += p * w.compute[i]
	}
	v, next := make([]float64, len(w.states)), make([]float64, len(w.states))
	for range 100000 {
		low, high := math.Inf(1), math.Inf(-1)
		for s := range w.states {
			next[s] = w.step(v, s, total, choose, mayRefuse)
			low, high = min(low, next[s]-v[s]), max(high, next[s]-v[s])
		}
		v, next = next, v
		if high-low < 1e-6*high {
			return high * total / (w.rate * asked)
		}
	}
	return math.NaN()
}

func (w *world) step(v []float64, s int, total float64, choose choice, mayRefuse bool) float64 {
	sum, stay := 0.0, 7.0
	for p := range w.spots {
		if w.states[s]>>p&1 == 1 {
			sum += v[w.number[w.states[s]&^(1<<p)]]
			stay--
		}
	}
	sum += stay * v[s]
	for i, likely := range w.mix {
		best := v[s]
		if choose != nil {
			if p := choose(s, i); p >= 0 {
				best = w.compute[i] + v[w.number[w.states[s]|1<<p]]
			}
		} else {
			won, found := math.Inf(-1), false
			for p, m := range w.spots {
				if w.shapes[p] == i && w.busy[s]&m == 0 {
					won, found = max(won, w.compute[i]+v[w.number[w.states[s]|1<<p]]), true
				}
			}
			if found && (!mayRefuse || won > best) {
				best = won
			}
		}
		sum += w.rate * likely * best
	}
	return sum / total
}

// by is what an engine chooses.
func (w *world) by(e *Engine) choice {
	nodes := cuttable(w.table, 1)
	made := make([][6]int, len(w.states))
	for s := range w.states {
		for i := range w.mix {
			nodes[0].Busy = w.busy[s]
			made[s][i] = -1
			n, slice, _ := e.Place(nodes, mig(w.table.shapes[i].Name))
			if n < 0 {
				continue
			}
			for p, m := range w.spots {
				if w.shapes[p] == i && m.placement() == slice.Placement {
					made[s][i] = p
				}
			}
		}
	}
	return func(s, i int) int { return made[s][i] }
}

func TestCensus(t *testing.T) {
	w := newWorld(t, mixes()["mixed"], 0.8)
	maximal := 0
	for _, busy := range w.busy {
		room := false
		for _, m := range w.spots {
			room = room || busy&m == 0
		}
		if !room {
			maximal++
		}
	}
	if len(w.spots) != 18 || len(w.states) != 723 || maximal != 78 {
		t.Errorf("%d placements, %d states, %d of them maximal; want 18, 723, 78", len(w.spots), len(w.states), maximal)
	}
}

// The optimum is exact: all states, the best choice in each. What the policies reach is exact too: the same chain,
// their choices.
func TestFragIsNearTheOptimumOfOneGPU(t *testing.T) {
	known := map[string][2]float64{"notebook": {.593, .579}, "mixed": {.526, .501}, "no 7g": {.634, .614}} // optimum, first
	for name, m := range mixes() {
		w := newWorld(t, m, 0.8)
		best, first := w.value(nil, false), w.value(w.by(New(First, 0)), false)
		if math.Abs(best-known[name][0]) > .0006 || math.Abs(first-known[name][1]) > .0006 {
			t.Errorf("%s: the optimum is %.4f and first reaches %.4f, known are %v", name, best, first, known[name])
		}
		for label, e := range map[string]*Engine{"before any request": New(Frag, 0), "after 2000": learned(w, m)} {
			got := w.value(w.by(e), false)
			t.Logf("%s, %s: optimum %.4f, frag %.4f, first %.4f", name, label, best, got, first)
			if !(got >= 0.99*best && got <= best+1e-6) {
				t.Errorf("%s, %s: frag reaches %.4f of the optimum %.4f", name, label, got, best)
			}
		}
	}
}

// To refuse what would fit, so as to keep room for better, would win next to nothing: no policy does it.
func TestRefusingWinsNothing(t *testing.T) {
	for name, m := range mixes() {
		w := newWorld(t, m, 0.8)
		if never, may := w.value(nil, false), w.value(nil, true); may < never-1e-6 || may > never*1.001 {
			t.Errorf("%s: %.4f without refusals, %.4f with", name, never, may)
		}
	}
}

// learned is an engine that has seen 2000 requests of a mix, evenly.
func learned(w *world, m mix) *Engine {
	e := New(Frag, 0)
	var owed mix
	for range 2000 {
		next := 0
		for i := range owed {
			if owed[i] += m[i]; owed[i] > owed[next] {
				next = i
			}
		}
		owed[next]--
		e.Note(mig(w.table.shapes[next].Name))
	}
	return e
}
