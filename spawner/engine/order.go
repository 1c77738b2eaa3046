package engine

import (
	"slices"
	"strings"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// queueLocked says why e may not lease now; the zero Queue when it may.
func (m *Manager) queueLocked(e *entry) spawner.Queue {
	q, _ := m.turnLocked(e)
	return q
}

// turnLocked says why e may not lease now, or what it may have.
func (m *Manager) turnLocked(e *entry) (spawner.Queue, grant) {
	if !e.InQueue() {
		return spawner.Queue{}, grant{}
	}
	l := lineOf(e.Workload)
	ahead := m.aheadLocked(&e.Workload)
	q := spawner.Queue{Place: ahead + 1, Estimate: m.estimateLocked(l, ahead+1)}
	if q.Lacks = m.whyBarredLocked(clientOf(e.Workload), l); q.Lacks != "" {
		return q, grant{}
	}
	if ahead > 0 && m.headLocked(l) != e {
		return q, grant{}
	}
	var g grant
	if g, q.Lacks = m.roomLocked(e); q.Lacks == "" {
		q.Lacks = m.yieldsLocked(e.Workload, g)
	}
	if q.Lacks == "" {
		return spawner.Queue{}, g
	}
	return q, grant{}
}

// aheadLocked counts who goes before w in its line; see Queue.Place.
func (m *Manager) aheadLocked(w *spawner.Workload) int {
	if w.Kind != spawner.Job {
		return m.index.age(*w)
	}
	c, order := clientOf(*w), m.fairshareOrderLocked(lineOf(*w))
	at, has := slices.BinarySearchFunc(order.clients, c, m.shares.compare)
	return order.ahead(m.index.shares[lineOf(*w)][c].before(ticketOf(*w)), at, has)
}

// candidate is who is first of one client in a line.
type candidate struct {
	client
	ticket
}

// beforeLocked reports whether a goes before b, who waits in the same line or in another line of jobs of the same backend: sessions in the
// order in which they were asked for, jobs of whoever has had least of late, and of one user's by their priority.
func (m *Manager) beforeLocked(a, b candidate) bool {
	switch {
	case !a.jobs:
		return byAge(a.ticket, b.ticket) < 0
	case a.client == b.client:
		return byPriority(a.ticket, b.ticket) < 0
	default:
		return m.shares.compare(a.client, b.client) < 0
	}
}

// candidateOf returns w as one of those who stand in a line.
func candidateOf(w *spawner.Workload) candidate {
	return candidate{client{w.Backend, spawner.Principal{Hub: w.Hub, User: w.Owner}, w.Kind == spawner.Job}, ticket{w.Spec.Priority, w.Turn, w.ID}}
}

// headLocked returns who is next in a line: the first of those whom anything that is given back could serve. Who waits for GPUs that are
// out of service holds up nobody: that may last for weeks, and others ask for other GPUs.
func (m *Manager) headLocked(l line) *entry {
	if l.jobs {
		return m.headOfJobsLocked(l)
	}
	head, found := candidate{}, false
	stuck := map[gpu.Request]bool{}
	for c, b := range m.index.shares[l] {
		t, ok := m.firstLocked(b, stuck)
		if ok = ok && !m.barredLocked(c, l); ok && (!found || m.beforeLocked(candidate{c, t}, head)) {
			head, found = candidate{c, t}, true
		}
	}
	if !found {
		return m.work[m.index.head(l)]
	}
	return m.work[head.id]
}

// headOfJobsLocked is headLocked where whoever has had least of late goes first.
func (m *Manager) headOfJobsLocked(l line) *entry {
	stuck := map[gpu.Request]bool{}
	for _, c := range m.fairshareOrderLocked(l).clients {
		if m.barredLocked(c, l) {
			continue
		}
		if t, ok := m.firstLocked(m.index.shares[l][c], stuck); ok {
			return m.work[t.id]
		}
	}
	return m.work[m.index.head(l)]
}

// firstLocked returns the first of one client's in a line that anything that is given back could serve; false: none.
func (m *Manager) firstLocked(b bench, stuck map[gpu.Request]bool) (first ticket, found bool) {
	for asks, r := range b {
		is, known := stuck[asks]
		if !known {
			is = m.stuckLocked(asks)
			stuck[asks] = is
		}
		if !is && (!found || byPriority(r[0], first) < 0) {
			first, found = r[0], true
		}
	}
	return first, found
}

// stuckLocked reports whether nothing of what r asks for could be had now, though all were given back.
func (m *Manager) stuckLocked(r gpu.Request) bool {
	if r.None() || m.cfg.GPUs == nil {
		return false
	}
	_, most := m.cfg.GPUs.Count(r, nil)
	return most == 0
}

// yieldsLocked says what w leaves to the first of another line, who goes before it; empty: nothing. Who lacks one thing only, processors
// or a part of a GPU, is not overtaken in that by who comes later, else many small ones starved a large one; nor is who lacks
// nothing any more and is about to have it. Who lacks both holds up nobody.
func (m *Manager) yieldsLocked(w spawner.Workload, g grant) string {
	for l := range m.index.lines {
		first := m.headLocked(l)
		if first == nil || l == lineOf(w) || !m.precedesLocked(first.Workload, w) || m.stuckLocked(first.LocalGPU()) || m.barredLocked(clientOf(first.Workload), l) {
			continue
		}
		noRoom := m.ledger.lacks(l.backend, first.Spec.Resources) != ""
		noPart := !first.LocalGPU().None() && m.cfg.GPUs != nil && m.partLacksLocked(first)
		polite := "others go first"
		if first.Kind != spawner.Job && w.Kind == spawner.Job {
			polite = "a session goes first"
		}
		switch {
		case w.Remote && l.backend == w.Backend:
			return polite
		case !noPart && m.competesLocked(first, w):
			return polite + ", for processors and memory"
		case !noRoom && l.mode != "" && l.mode == w.Spec.GPU.Mode && g.wouldDo(first.Spec.GPU):
			return polite + ", for a part of a GPU"
		}
	}
	return ""
}

// competesLocked reports whether first could do with processors and memory that w would take: of the same backend or, where it lacks nothing
// of its own, of the host.
func (m *Manager) competesLocked(first *entry, w spawner.Workload) bool {
	if first.Backend == w.Backend {
		return true
	}
	own := shortage(m.ledger.capacity[first.Backend], m.ledger.use(first.Backend), first.Spec.Resources)
	return own == "" && m.ledger.together(first.Backend, w.Backend)
}

// precedesLocked reports whether a, the first of its line, goes before b, of another one. A session, for which somebody waits, goes before
// jobs of the same Remote, and on this host unless the site has it otherwise: then all jobs of a backend stand where the oldest of them does,
// so that no three can wait for one another.
func (m *Manager) precedesLocked(a, b spawner.Workload) bool {
	aJob, bJob := a.Kind == spawner.Job, b.Kind == spawner.Job
	switch {
	case aJob && bJob && a.Backend == b.Backend:
		return m.beforeLocked(candidateOf(&a), candidateOf(&b))
	case aJob != bJob && (a.Backend == b.Backend || m.cfg.Yield && !a.Remote && !b.Remote):
		return bJob
	default:
		return m.turnOf(a) < m.turnOf(b)
	}
}

// turnOf returns the turn that counts for w where sessions and jobs stand in one order.
func (m *Manager) turnOf(w spawner.Workload) int64 {
	if w.Kind == spawner.Job {
		return min(w.Turn, m.index.oldest(w.Backend))
	}
	return w.Turn
}

// wouldDo reports whether who asks for r waits for that of which a grant is a part. What is borrowed nobody waits for.
func (g grant) wouldDo(r gpu.Request) bool {
	return g.lender == "" && (g.slice == nil || strings.Contains(strings.ToLower(g.slice.Model), strings.ToLower(r.Model)))
}
