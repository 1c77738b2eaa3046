package spawner

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"slipway/internal/gpu"
)

// Queue is where a workload stands in line for room. The zero Queue is of one that does not wait.
type Queue struct {
	Place    int           // from 1
	Lacks    string        // what is missing for it, where it is next
	Estimate time.Duration // until its turn; negative: nobody knows
}

// String says it in words; empty when it does not wait.
func (q Queue) String() string {
	switch {
	case q.Place == 0:
		return ""
	case q.Place == 1:
		return "Waiting for room, next in line: " + q.Lacks + about(q.Estimate)
	case q.Lacks != "":
		return fmt.Sprintf("Waiting for room, number %d in line: %s", q.Place, q.Lacks) + about(q.Estimate)
	default:
		return fmt.Sprintf("Waiting for room: number %d in line", q.Place) + about(q.Estimate)
	}
}

// about says an estimate as roughly as it is known, so that it does not change with every look.
func about(d time.Duration) string {
	switch minutes := int(math.Ceil(d.Minutes())); {
	case d < 0:
		return ""
	case minutes <= 1:
		return "; about a minute, as things go"
	case minutes < 15:
		return fmt.Sprintf("; about %d min, as things go", minutes)
	case minutes < 90:
		return fmt.Sprintf("; about %d min, as things go", (minutes+4)/5*5)
	default:
		return fmt.Sprintf("; about %d h, as things go", int(math.Round(d.Hours())))
	}
}

// Queue says why and how long a workload waits for room.
func (m *Manager) Queue(w Workload) Queue {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e := m.work[w.ID]
	if e == nil || !e.waits() {
		return Queue{}
	}
	return m.queueLocked(e)
}

// queueLocked says why e may not lease now; the zero Queue when it may.
func (m *Manager) queueLocked(e *entry) Queue {
	q, _ := m.turnLocked(e)
	return q
}

// turnLocked says why e may not lease now, or what it may have.
func (m *Manager) turnLocked(e *entry) (Queue, grant) {
	at, ok := m.index.find(e.Workload)
	if !ok {
		return Queue{}, grant{}
	}
	q := Queue{Place: at + 1, Estimate: m.estimateLocked(e.line(), at+1)}
	if q.Lacks = m.whyBarredLocked(e.client()); q.Lacks != "" {
		return q, grant{}
	}
	if at > 0 && m.headLocked(e.line()) != e {
		return q, grant{}
	}
	var g grant
	if g, q.Lacks = m.roomLocked(e); q.Lacks == "" {
		q.Lacks = m.yieldsLocked(e.Workload, g)
	}
	if q.Lacks == "" {
		return Queue{}, g
	}
	return q, grant{}
}

// headLocked gives who is next in a line: the first of those whom anything that is given back could serve. Who waits for GPUs that are
// out of service holds up nobody: that may last for weeks, and others ask for other GPUs.
func (m *Manager) headLocked(l line) *entry {
	var head *entry
	stuck := map[gpu.Request]bool{}
	for c, r := range m.index.shares[l] {
		if m.barredLocked(c) {
			continue
		}
		if e := m.firstLocked(r, stuck); e != nil && (head == nil || e.ticket().compare(head.ticket()) < 0) {
			head = e
		}
	}
	return cmp.Or(head, m.work[m.index.head(l)])
}

// firstLocked gives the first of one client's in a line that anything that is given back could serve; nil: none.
func (m *Manager) firstLocked(r row, stuck map[gpu.Request]bool) *entry {
	for _, t := range r {
		e := m.work[t.id]
		asks := e.gpuHere()
		if _, known := stuck[asks]; !known {
			stuck[asks] = m.stuckLocked(asks)
		}
		if !stuck[asks] {
			return e
		}
	}
	return nil
}

// stuckLocked reports whether nothing of what r asks for could be had now, though all were given back.
func (m *Manager) stuckLocked(r gpu.Request) bool {
	if r.None() || m.cfg.GPUs == nil {
		return false
	}
	_, most := m.cfg.GPUs.Count(r, nil)
	return most == 0
}

// yieldsLocked says what w leaves to the first of another line, who asked before; empty: nothing. Who lacks one thing only, processors
// or a part of a GPU, is not overtaken in that by who came later, else many small ones starved a large one; nor is who lacks
// nothing any more and is about to have it. Who lacks both holds up nobody.
func (m *Manager) yieldsLocked(w Workload, g grant) string {
	for l := range m.index.lines {
		older := m.headLocked(l)
		if older == nil || l == w.line() || !older.precedes(w) || m.stuckLocked(older.gpuHere()) || m.barredLocked(older.client()) {
			continue
		}
		noRoom := m.ledger.lacks(l.backend, older.Spec.Resources) != ""
		noPart := !older.gpuHere().None() && m.cfg.GPUs != nil && m.partLacksLocked(older)
		switch {
		case l.backend == w.Backend && l.jobs != w.line().jobs:
			return "a session goes first"
		case !noPart && l.backend == w.Backend:
			return "others asked before for processors and memory"
		case !noRoom && l.mode != "" && l.mode == w.Spec.GPU.Mode && g.wouldDo(older.Spec.GPU):
			return "others asked before for a part of a GPU"
		}
	}
	return ""
}

// precedes reports whether w, in its line, goes before one of another line: it asked before. Of a Remote a session, for which somebody
// waits, goes before jobs.
func (w Workload) precedes(o Workload) bool {
	if jobs := w.line().jobs; w.Remote && w.Backend == o.Backend && jobs != o.line().jobs {
		return !jobs
	}
	return w.Turn < o.Turn
}

// wouldDo reports whether who asks for r waits for that of which a grant is a part. What is borrowed nobody waits for.
func (g grant) wouldDo(r gpu.Request) bool {
	return g.lender == "" && (g.slice == nil || strings.Contains(strings.ToLower(g.slice.Model), strings.ToLower(r.Model)))
}

// Room is what a backend has for workloads of one size.
type Room struct {
	Most     int           // at once when it is empty; -1: not limited, or it is a Remote's own matter
	Free     int           // at once now; -1: not limited
	Lacks    string        // why not one more starts now; empty: one does
	Waiting  int           // that stand in line before a new one
	Estimate time.Duration // until a new one's turn, if it cannot start now; negative: nobody knows
}

// Room says whether a session of resources r, with the slice of a GPU that g asks for, could start now on a backend; empty:
// Config.Sessions. How long a Remote lets it wait there is not known.
func (m *Manager) Room(backend string, r Resources, g gpu.Request) Room {
	m.mu.RLock()
	defer m.mu.RUnlock()
	backend = cmp.Or(backend, m.cfg.Sessions)
	if m.remote(backend) {
		g = gpu.Request{}
	}
	l := line{backend: backend, mode: g.Mode}
	room := Room{
		Most: fits(m.ledger.capacity[l.backend], Capacity{}, r), Free: fits(m.ledger.capacity[l.backend], m.ledger.use(l.backend), r),
		Waiting: len(m.index.lines[l]), Lacks: m.ledger.lacks(l.backend, r), Estimate: -1,
	}
	if !g.None() {
		m.roomOnGPUsLocked(&room, g)
	}
	if room.Lacks == "" && room.Waiting > 0 {
		room.Lacks = "others wait in line"
	}
	if room.Lacks == "" {
		room.Lacks = m.yieldsLocked(Workload{Backend: l.backend, Remote: m.remote(backend), Spec: Spec{Resources: r, GPU: g}, Turn: m.turn + 1}, grant{})
	}
	if room.Lacks != "" {
		room.Estimate = m.estimateLocked(l, room.Waiting+1)
	}
	return room
}

// Census counts the active sessions of a hub by what per says of each; empty words are not counted.
func (m *Manager) Census(hub string, per func(Workload) string) map[string]int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	count := map[string]int{}
	for _, e := range m.work {
		if e.Kind == Job || e.Hub != hub || !e.Phase.Active() {
			continue
		}
		if word := per(e.Workload); word != "" {
			count[word]++
		}
	}
	return count
}

// What is looked at to estimate a wait: the releases of the last hours.
const (
	releaseSpan  = 6 * time.Hour
	releaseCount = 20
	fewReleases  = 3
)

// releases are the times at which a backend's resources were given back, oldest first.
type releases []time.Time

func (r releases) add(at time.Time) releases {
	r = append(r, at)
	if len(r) > releaseCount {
		r = r[len(r)-releaseCount:]
	}
	return r
}

// estimate gives how long the one at place waits if room comes free as often as of late; negative when too little is known.
func (r releases) estimate(place int, now time.Time) time.Duration {
	for len(r) > 0 && now.Sub(r[0]) > releaseSpan {
		r = r[1:]
	}
	if len(r) < fewReleases {
		return -1
	}
	return time.Duration(place) * now.Sub(r[0]) / time.Duration(len(r))
}

func (m *Manager) estimateLocked(l line, place int) time.Duration {
	return m.releases[l].estimate(place, time.Now())
}
