package placementsim

import (
	"math"
	"testing"
	"time"

	"slipway/internal/config"
	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// anchor is what independent simulations of 8 GPUs at load 0.8 have reached: the least that ours must.
type anchor struct {
	name               string
	mix                map[string]float64
	spread, frag       float64
	firstFit, bestPack float64
}

func anchors() []anchor {
	names := []string{"1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}
	mix := func(parts ...float64) map[string]float64 {
		m := map[string]float64{}
		for i, part := range parts {
			m[names[i]] = part
		}
		return m
	}
	return []anchor{
		{"notebook", mix(55, 5, 20, 12, 3, 5), .725, .861, .849, .847},
		{"mixed", mix(30, 10, 20, 20, 10, 10), .655, .832, .807, .819},
		{"no 7g", mix(45, 10, 25, 15, 5, 0), .790, .896, .875, .878},
	}
}

// spread is the policy to be beaten: the emptiest GPU, the lowest place.
type spread struct{ first *placement.Engine }

// Note learns nothing.
func (s spread) Note(gpu.Request) {}

// Find asks the GPUs one by one, the emptiest first.
func (s spread) Find(nodes []placement.Node, r gpu.Request) (int, gpu.Slice) {
	best, at, least := -1, gpu.Slice{}, math.MaxInt
	for i := range nodes {
		busy := 0
		for slot := range nodes[i].Table.Slots() {
			busy += int(nodes[i].Busy >> slot & 1)
		}
		if busy >= least {
			continue
		}
		if k, slice := s.first.Find(nodes[i:i+1], r); k == 0 {
			best, at, least = i, slice, busy
		}
	}
	return best, at
}

// TestEightGPUsReachTheAnchors measures acceptance by slices, in the mean of three seeds: frag must reach what is
// known, and win over spreading requests. The other policies only show that the same thing is simulated. -v prints the
// table of deploy/bench/README.md.
func TestEightGPUsReachTheAnchors(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for _, a := range anchors() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			a.check(t, seeds)
		})
	}
}

func (a anchor) check(t *testing.T, seeds uint64) {
	got := map[string]float64{}
	for seed := range seeds {
		for name, result := range a.replay(t, seed) {
			got[name] += result.Weighted / float64(seeds)
		}
	}
	t.Logf("| %s | %.3f | %.3f | %.3f | %.3f | %+.1f %% |", a.name, got["spread"], got["first"], got["pack"], got["frag"], 100*(got["frag"]/got["spread"]-1))
	if got["frag"] < a.frag {
		t.Errorf("frag accepts %.4f, known is %.3f", got["frag"], a.frag)
	}
	// Without large requests there is less to win: 13 %, as in the known figures.
	if least := map[bool]float64{true: 1.12, false: 1.15}[a.name == "no 7g"]; got["frag"] < least*got["spread"] {
		t.Errorf("frag accepts %.4f, spreading %.4f", got["frag"], got["spread"])
	}
	for name, known := range map[string]float64{"spread": a.spread, "first": a.firstFit, "pack": a.bestPack} {
		if math.Abs(got[name]-known) > .02 { // ties are broken in other ways
			t.Errorf("%s accepts %.4f, known is %.3f", name, got[name], known)
		}
	}
}

func (a anchor) replay(t *testing.T, seed uint64) map[string]Result {
	trace := Trace{
		Fleet:    []Group{{Model: "H200", Count: 8, Mode: "mig"}},
		Generate: &Generator{Count: 100_000, Seed: seed, Load: 0.8, Duration: config.Duration(time.Hour), Mix: a.mix},
	}
	nodes, err := trace.nodes(models())
	if err != nil {
		t.Fatal(err)
	}
	requests, err := trace.requests(nodes)
	if err != nil {
		t.Fatal(err)
	}
	if got := load(requests, len(nodes)); math.Abs(got-0.8) > 0.01 {
		t.Fatalf("the load is %.3f", got)
	}
	results := map[string]Result{}
	for name, p := range map[string]placer{
		"spread": spread{placement.New(placement.First, 0)}, "first": placement.New(placement.First, 0), "pack": placement.New(placement.Pack, 0), "frag": placement.New(placement.Frag, 0),
	} {
		r := newReplay(nodes, requests, 0, p)
		r.run()
		results[name] = r.result(placement.Policy(name))
		if res := results[name]; math.Abs(res.Utilisation-res.Weighted*0.8) > 0.02 {
			t.Errorf("%s, %s: %.3f of the GPUs are used while %.3f of a load of 0.8 is accepted", a.name, name, res.Utilisation, res.Weighted)
		}
	}
	return results
}
