package placementsim

import (
	"container/heap"
	"slices"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// placer is what is measured.
type placer interface {
	Find(nodes []placement.Node, r gpu.Request) (int, gpu.Slice)
	Note(r gpu.Request)
}

// replay is one run over a trace.
type replay struct {
	placer   placer
	nodes    []placement.Node
	requests []request
	patience time.Duration

	now     time.Duration
	held    ends
	waiting []int // requests, in the order in which they came
	waited  []time.Duration
	won     float64 // shares of those placed
	measure measure
}

func newReplay(nodes []placement.Node, requests []request, patience time.Duration, p placer) *replay {
	r := &replay{placer: p, nodes: slices.Clone(nodes), requests: requests, patience: patience}
	for i := range r.nodes {
		r.nodes[i].Ready = slices.Clone(nodes[i].Ready)
	}
	r.measure = newMeasure(r.nodes, requests)
	return r
}

// run takes requests and ends of what is held in the order of time. Whoever does not fit does not hold up those behind.
func (r *replay) run() {
	for i, q := range r.requests {
		r.endUntil(q.at)
		r.advance(q.at)
		r.placer.Note(q.gpu)
		if q.share == 0 {
			continue
		}
		if !r.place(i) && r.patience > 0 {
			r.waiting = append(r.waiting, i)
		}
	}
	for len(r.held) > 0 {
		r.endUntil(r.held[0].at)
	}
}

// endUntil ends all that is held no longer at a moment, and lets those in who wait.
func (r *replay) endUntil(until time.Duration) {
	for len(r.held) > 0 && r.held[0].at <= until {
		e := heap.Pop(&r.held).(end)
		r.advance(e.at)
		r.nodes[e.node].Give(e.slice)
		r.measure.held(r.nodes, e.node, -e.share)
		if len(r.waiting) > 0 {
			r.waiting = slices.DeleteFunc(
				r.waiting, func(i int) bool { return r.now-r.requests[i].at > r.patience || r.place(i) },
			)
		}
	}
}

func (r *replay) advance(to time.Duration) {
	r.measure.pass(to - r.now)
	r.now = to
}

// place tries to place a request now.
func (r *replay) place(i int) bool {
	q := &r.requests[i]
	node, slice := r.placer.Find(r.nodes, q.gpu)
	if node < 0 {
		return false
	}
	n := &r.nodes[node]
	r.measure.instance(n, slice)
	n.Take(slice)
	part := partOf(n, q.gpu)
	r.measure.held(r.nodes, node, part)
	heap.Push(&r.held, end{at: r.now + q.holds, node: node, slice: slice, share: part, number: i})
	r.waited = append(r.waited, r.now-q.at)
	r.won += q.share
	return true
}

func (r *replay) result(policy placement.Policy) Result {
	asked := 0.0
	for _, q := range r.requests {
		asked += q.share
	}
	m := r.measure
	res := Result{
		Policy: policy, Accepted: len(r.waited), Acceptance: float64(len(r.waited)) / float64(len(r.requests)),
		Utilisation: m.utilisation(len(r.nodes)), Fragmentation: m.fragmentation(), Made: m.made, Reused: m.reused,
		Wait: wait(r.waited),
	}
	if asked > 0 {
		res.Weighted = r.won / asked
	}
	return res
}

// end is the end of what is held.
type end struct {
	at     time.Duration
	node   int
	slice  gpu.Slice
	share  float64
	number int // of the request: orders those that end at once
}

// ends is a heap of them, the next first.
type ends []end

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push adds the end v.
func (e *ends) Push(v any) { *e = append(*e, v.(end)) }

// Pop takes the last one off.
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
