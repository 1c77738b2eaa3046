package placementsim

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// request is one of a trace, ready to be placed.
type request struct {
	at, holds time.Duration
	gpu       gpu.Request
	share     float64 // of a GPU; 0: the fleet cannot give it
}

// requests returns all requests in the order in which they come.
func (t Trace) requests(nodes []placement.Node) ([]request, error) {
	if t.Generate != nil {
		return t.Generate.requests(nodes)
	}
	var all []request
	for i, r := range t.Requests {
		q, err := gpu.ParseRequest(r.GPU)
		if err != nil {
			return nil, fmt.Errorf("requests[%d].gpu: %w", i, err)
		}
		q.Group, q.Model = r.Group, r.Model
		all = append(
			all, request{at: time.Duration(r.At), holds: time.Duration(r.Duration), gpu: q, share: share(nodes, q)},
		)
	}
	slices.SortStableFunc(all, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	return all, nil
}

// requests makes the requests of a generator. Names are taken in their order, so that a seed always gives the same.
func (g Generator) requests(nodes []placement.Node) ([]request, error) {
	kinds, upTo := make([]request, 0, len(g.Mix)), make([]float64, 0, len(g.Mix))
	sum, mean := 0.0, 0.0
	for _, name := range slices.Sorted(maps.Keys(g.Mix)) {
		q, err := gpu.ParseRequest(name)
		if err != nil {
			return nil, fmt.Errorf("generate.mix: %w", err)
		}
		q.Group = "group 0"
		kind := request{gpu: q, share: share(nodes, q)}
		sum += g.Mix[name]
		mean += g.Mix[name] * kind.share
		kinds, upTo = append(kinds, kind), append(upTo, sum)
	}
	if mean == 0 {
		return nil, errs.Bad(
			"generate.mix", kinds[0].gpu, "something that this fleet can give: "+placement.Never(nodes, kinds[0].gpu),
		)
	}
	gap := float64(g.Duration) * (mean / sum) / (g.Load * float64(len(nodes)))
	dice := rand.New(rand.NewPCG(g.Seed, 0))
	all, now := make([]request, g.Count), 0.0
	for i := range all {
		now += dice.ExpFloat64() * gap
		k, _ := slices.BinarySearch(upTo, dice.Float64()*sum)
		all[i] = kinds[k]
		all[i].at, all[i].holds = time.Duration(now), time.Duration(dice.ExpFloat64()*float64(g.Duration))+1
		if g.Groups > 1 {
			all[i].gpu.Group = fmt.Sprintf("group %d", dice.IntN(g.Groups))
		}
	}
	if now > 10*float64(longest) {
		return nil, errs.Bad("generate.count", g.Count, "a trace of ten years at most")
	}
	return all, nil
}

// share says what part of a GPU a request asks for, on the first that can give it.
func share(nodes []placement.Node, r gpu.Request) float64 {
	for i := range nodes {
		n := &nodes[i]
		if _, most := placement.Count(nodes[i:i+1], r); most > 0 {
			return partOf(n, r)
		}
	}
	return 0
}

func partOf(n *placement.Node, r gpu.Request) float64 {
	switch r.Mode {
	case gpu.MIG:
		return n.Table.Share(r.Profile)
	case gpu.MPS:
		return float64(r.Percent) / 100
	case gpu.Shared:
		return 1 / float64(n.AtOnce)
	default:
		return 1
	}
}
