package sched

import (
	"slices"
	"strings"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// Queue returns why w may not lease now; the zero Queue when it may. Reads only.
func (s *Scheduler) Queue(w *spawner.Workload) spawner.Queue {
	q, _ := s.Turn(w)
	return q
}

// Turn returns why w may not lease now, or the zero Queue and what it may have. Reads only.
func (s *Scheduler) Turn(w *spawner.Workload) (spawner.Queue, Grant) {
	if !w.InQueue() {
		return spawner.Queue{}, Grant{}
	}
	l := lineOf(*w)
	ahead := s.ahead(w)
	q := spawner.Queue{Place: ahead + 1, Estimate: s.estimate(l, ahead+1)}
	if q.Lacks = s.whyBarred(associationOf(*w), l); q.Lacks != "" {
		return q, Grant{}
	}
	if ahead > 0 && s.head(l) != w {
		return q, Grant{}
	}
	var g Grant
	if g, q.Lacks = s.Vacancy(w); q.Lacks == "" {
		q.Lacks = s.yields(*w, g)
	}
	if q.Lacks == "" {
		return spawner.Queue{}, g
	}
	return q, Grant{}
}

// ahead counts who goes before w in its line; see Queue.Place.
func (s *Scheduler) ahead(w *spawner.Workload) int {
	if w.Kind.Session() {
		return s.lines.age(*w)
	}
	c, order := associationOf(*w), s.fairshareOrder(lineOf(*w))
	at, has := slices.BinarySearchFunc(order.associations, c, s.shares.compare)
	return order.ahead(s.lines.byAssociation[lineOf(*w)][c].before(ticketOf(*w)), at, has)
}

// candidate is who is first of one association in a line.
type candidate struct {
	association
	ticket
}

// before reports whether a goes before b, who waits in the same line or in another line of jobs of the same backend:
// sessions in the order in which they were asked for, jobs of whoever has had least of late, and of one user's by their
// priority.
func (s *Scheduler) before(a, b candidate) bool {
	switch {
	case !a.jobs:
		return byAge(a.ticket, b.ticket) < 0
	case a.association == b.association:
		return byPriority(a.ticket, b.ticket) < 0
	default:
		return s.shares.compare(a.association, b.association) < 0
	}
}

// candidateOf returns w as one of those who stand in a line.
func candidateOf(w *spawner.Workload) candidate {
	return candidate{associationOf(*w), ticketOf(*w)}
}

// head returns who is next in a line: the first of those whom anything that is given back could serve. Who waits for
// GPUs that are out of service holds up nobody: that may last for weeks, and others ask for other GPUs.
func (s *Scheduler) head(l line) *spawner.Workload {
	if l.jobs {
		return s.headOfJobs(l)
	}
	head, found := candidate{}, false
	stuck := map[gpu.Request]bool{}
	for c, b := range s.lines.byAssociation[l] {
		t, ok := s.first(b, stuck)
		if ok = ok && !s.barred(c, l); ok && (!found || s.before(candidate{c, t}, head)) {
			head, found = candidate{c, t}, true
		}
	}
	if !found {
		return s.work[s.lines.head(l)]
	}
	return s.work[head.id]
}

// headOfJobs is head where whoever has had least of late goes first.
func (s *Scheduler) headOfJobs(l line) *spawner.Workload {
	stuck := map[gpu.Request]bool{}
	for _, c := range s.fairshareOrder(l).associations {
		if s.barred(c, l) {
			continue
		}
		if t, ok := s.first(s.lines.byAssociation[l][c], stuck); ok {
			return s.work[t.id]
		}
	}
	return s.work[s.lines.head(l)]
}

// first returns the first of one association's in a line that anything that is given back could serve; false: none.
func (s *Scheduler) first(b requestQueues, stuck map[gpu.Request]bool) (first ticket, found bool) {
	for asks, r := range b {
		is, known := stuck[asks]
		if !known {
			is = s.stuck(asks)
			stuck[asks] = is
		}
		if !is && (!found || byPriority(r[0], first) < 0) {
			first, found = r[0], true
		}
	}
	return first, found
}

// stuck reports whether nothing of what r asks for could be had now, though all were given back.
func (s *Scheduler) stuck(r gpu.Request) bool {
	if r.None() || s.cfg.GPUs == nil {
		return false
	}
	_, most := s.cfg.GPUs.Count(r, nil)
	return most == 0
}

// yields says what w leaves to the first workload of another line that goes before it; empty: nothing. Else many small
// workloads would starve a large one. That first one
//   - lacks only processors or memory: others wait for these;
//   - lacks only a part of a GPU: others wait for one;
//   - lacks nothing any more, and is about to start: others wait for both;
//   - lacks both: nobody waits for it.
func (s *Scheduler) yields(w spawner.Workload, g Grant) string {
	for l := range s.lines.byAge {
		first := s.head(l)
		if first == nil || l == lineOf(w) || !s.precedes(*first, w) || s.stuck(first.LocalGPU()) ||
			s.barred(associationOf(*first), l) {
			continue
		}
		noRoom := s.ledger.lacks(l.backend, first.Spec.Resources) != ""
		noPart := !first.LocalGPU().None() && s.cfg.GPUs != nil && s.partLacks(first)
		polite := "others go first"
		if first.Kind.Session() && w.Kind.Batch() {
			polite = "a session goes first"
		}
		switch {
		case w.Remote && l.backend == w.Backend:
			return polite
		case !noPart && s.competes(first, w):
			return polite + ", for processors and memory"
		case !noRoom && l.mode != "" && l.mode == w.Spec.GPU.Mode && g.wouldDo(first.Spec.GPU):
			return polite + ", for a part of a GPU"
		}
	}
	return ""
}

// competes reports whether first could do with processors and memory that w would take: of the same backend or, where
// it lacks nothing of its own, of the host.
func (s *Scheduler) competes(first *spawner.Workload, w spawner.Workload) bool {
	if first.Backend == w.Backend {
		return true
	}
	own := shortage(s.ledger.capacity[first.Backend], s.ledger.use(first.Backend), first.Spec.Resources)
	return own == "" && s.ledger.together(first.Backend, w.Backend)
}

// precedes reports whether a, the first of its line, goes before b, of another one. A session, for which somebody
// waits, goes before jobs of the same Remote, and on this host unless the site has it otherwise: then all jobs of a
// backend stand where the oldest of them does, so that no three can wait for one another.
func (s *Scheduler) precedes(a, b spawner.Workload) bool {
	aJob, bJob := a.Kind.Batch(), b.Kind.Batch()
	switch {
	case aJob && bJob && a.Backend == b.Backend:
		return s.before(candidateOf(&a), candidateOf(&b))
	case aJob != bJob && (a.Backend == b.Backend || s.cfg.SessionsFirst && !a.Remote && !b.Remote):
		return bJob
	default:
		return s.turnOf(a) < s.turnOf(b)
	}
}

// turnOf returns the turn that counts for w where sessions and jobs stand in one order.
func (s *Scheduler) turnOf(w spawner.Workload) int64 {
	if w.Kind.Batch() {
		return min(w.Turn, s.lines.oldest(w.Backend))
	}
	return w.Turn
}

// wouldDo reports whether who asks for r waits for that of which a grant is a part. What is borrowed nobody waits for.
func (g Grant) wouldDo(r gpu.Request) bool {
	return g.Lender == "" && (g.Slice == nil || strings.Contains(
		strings.ToLower(g.Slice.Model), strings.ToLower(r.Model),
	))
}
