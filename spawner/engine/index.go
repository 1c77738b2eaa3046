package engine

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// launch names one start, as the hub that asked for it does.
type launch struct{ hub, name string }

// route is a path of a hub.
type route struct{ hub, prefix string }

// ticket is a place in line. It has no time: a clock that is set would mix up the line.
type ticket struct {
	priority int // among its owner's
	turn     int64
	id       spawner.ID
}

func ticketOf(w spawner.Workload) ticket { return ticket{w.Spec.Priority, w.Turn, w.ID} }

// byAge has who asked first go first, byPriority who matters more to the one owner of both.
func byAge(t, o ticket) int { return cmp.Or(cmp.Compare(t.turn, o.turn), cmp.Compare(t.id, o.id)) }

func byPriority(t, o ticket) int {
	return cmp.Or(cmp.Compare(o.priority, t.priority), byAge(t, o))
}

// order is how tickets stand in a row.
type order = func(t, o ticket) int

// row are places in line, in an order.
type row []ticket

func (r row) with(t ticket, by order) row {
	at, _ := slices.BinarySearchFunc(r, t, by)
	return slices.Insert(r, at, t)
}

func (r row) without(t ticket, by order) row {
	if at, ok := slices.BinarySearchFunc(r, t, by); ok {
		return slices.Delete(r, at, at+1)
	}
	return r
}

// bench is where those of one client in a line wait, by what they ask for of a GPU, in the order of byPriority.
type bench map[gpu.Request]row

// size counts who waits there.
func (b bench) size() int {
	n := 0
	for _, r := range b {
		n += len(r)
	}
	return n
}

// before counts who goes before t.
func (b bench) before(t ticket) int {
	n := 0
	for _, r := range b {
		at, _ := slices.BinarySearchFunc(r, t, byPriority)
		n += at
	}
	return n
}

// line is where workloads stand that wait for the same: room of a backend and, with a mode, a slice of a GPU. Who waits for a GPU does
// not hold up who needs none. Who is first within a line Manager.headLocked says; between lines see Manager.yieldsLocked.
type line struct {
	backend string
	mode    gpu.Mode // empty: no GPU is wanted
	jobs    bool     // its jobs, of a backend that has sessions beside them in another line
}

// lineOf returns the line in which w stands when it waits.
func lineOf(w spawner.Workload) line {
	return line{w.Backend, w.LocalGPU().Mode, w.Kind == spawner.Job}
}

// index finds workloads without looking at all of them: what a request costs must not grow with what else there is. It agrees
// with the records at all times, for changeLocked keeps it. The Manager's lock guards it.
type index struct {
	owned    map[spawner.Principal]map[spawner.ID]*entry
	launches map[launch]spawner.ID     // of sessions, the current ones; their hub gives each a name of its own
	routes   map[route]spawner.ID      // of active sessions
	longest  int                       // of their prefixes so far
	lines    map[line]row              // in the order of byAge
	changes  int64                     // of the lines so far
	shares   map[line]map[client]bench // the lines again, of each client apart: whoever may have no more now is passed by at once
	jobs     map[spawner.Principal]int // active ones
	scans    map[string][]*entry       // the points of each, in order
	stays    map[string]stay           // what keeps the points of each
	bundles  map[spawner.ID]int        // how many jobs have each
	standbys map[spawner.ID]bool
}

// stay is for how long the points of a scan are kept: until a time after the last of them has ended.
type stay struct {
	active int       // of them
	ended  time.Time // the latest end of one there is, or was
}

// with returns s with n times w more.
func (s stay) with(w *spawner.Workload, n int) stay {
	if w.Phase.Active() {
		s.active += n
	} else if w.Outcome != nil {
		s.ended = latest(s.ended, w.Outcome.At)
	}
	return s
}

func newIndex() index {
	return index{owned: map[spawner.Principal]map[spawner.ID]*entry{}, launches: map[launch]spawner.ID{}, routes: map[route]spawner.ID{}, lines: map[line]row{}, shares: map[line]map[client]bench{}, jobs: map[spawner.Principal]int{}, scans: map[string][]*entry{}, stays: map[string]stay{}, bundles: map[spawner.ID]int{}, standbys: map[spawner.ID]bool{}}
}

// put enters e, which was before until now; the zero before is that of a new one.
func (x *index) put(before spawner.Workload, e *entry) {
	if before.ID != "" {
		x.drop(before)
	}
	o := e.Principal()
	if x.owned[o] == nil {
		x.owned[o] = map[spawner.ID]*entry{}
	}
	x.owned[o][e.ID] = e
	if e.Scan != "" {
		at, _ := x.point(e.Workload)
		x.scans[e.Scan] = slices.Insert(x.scans[e.Scan], at, e)
		x.stays[e.Scan] = x.stays[e.Scan].with(&e.Workload, 1)
	}
	if e.Bundle != "" {
		x.bundles[e.Bundle]++
	}
	if e.Standby != "" {
		x.standbys[e.ID] = true
	}
	if e.Kind.HubServer() {
		x.launches[launch{e.Hub, e.Launch}] = e.ID
	}
	if e.Phase.Active() && e.Spec.Prefix != "" {
		x.routes[route{e.Hub, e.Spec.Prefix}] = e.ID
		x.longest = max(x.longest, len(e.Spec.Prefix))
	}
	if e.Kind == spawner.Job && e.Phase.Active() {
		x.jobs[o]++
	}
	if e.InQueue() {
		x.queue(e.Workload)
	}
}

// queue has w stand in line.
func (x *index) queue(w spawner.Workload) {
	x.changes++
	l, c, t, asks := lineOf(w), clientOf(w), ticketOf(w), w.LocalGPU()
	if x.shares[l] == nil {
		x.shares[l] = map[client]bench{}
	}
	if x.shares[l][c] == nil {
		x.shares[l][c] = bench{}
	}
	x.lines[l], x.shares[l][c][asks] = x.lines[l].with(t, byAge), x.shares[l][c][asks].with(t, byPriority)
}

// leave has w stand in line no more.
func (x *index) leave(w spawner.Workload) {
	x.changes++
	l, c, t, asks := lineOf(w), clientOf(w), ticketOf(w), w.LocalGPU()
	mine := x.shares[l][c]
	x.lines[l] = x.lines[l].without(t, byAge)
	if mine[asks] = mine[asks].without(t, byPriority); len(mine[asks]) == 0 {
		delete(mine, asks)
	}
	if len(mine) == 0 {
		delete(x.shares[l], c)
	}
}

// drop forgets w.
func (x *index) drop(w spawner.Workload) {
	o := w.Principal()
	delete(x.owned[o], w.ID)
	if len(x.owned[o]) == 0 {
		delete(x.owned, o)
	}
	delete(x.standbys, w.ID)
	if at, ok := x.point(w); ok {
		x.scans[w.Scan] = slices.Delete(x.scans[w.Scan], at, at+1)
		x.stays[w.Scan] = x.stays[w.Scan].with(&w, -1)
	}
	if len(x.scans[w.Scan]) == 0 {
		delete(x.scans, w.Scan)
		delete(x.stays, w.Scan)
	}
	if x.bundles[w.Bundle]--; x.bundles[w.Bundle] <= 0 {
		delete(x.bundles, w.Bundle)
	}
	if l := (launch{w.Hub, w.Launch}); x.launches[l] == w.ID {
		delete(x.launches, l)
	}
	if r := (route{w.Hub, w.Spec.Prefix}); x.routes[r] == w.ID {
		delete(x.routes, r)
	}
	if w.Kind == spawner.Job && w.Phase.Active() {
		if x.jobs[o]--; x.jobs[o] == 0 {
			delete(x.jobs, o)
		}
	}
	if w.InQueue() {
		x.leave(w)
	}
}

// point returns the index of w among the points of its scan.
func (x *index) point(w spawner.Workload) (int, bool) {
	return slices.BinarySearchFunc(x.scans[w.Scan], w.Point, func(e *entry, n int) int { return cmp.Compare(e.Point, n) })
}

// age counts who in the line of w asked before it.
func (x *index) age(w spawner.Workload) int {
	at, _ := slices.BinarySearchFunc(x.lines[lineOf(w)], ticketOf(w), byAge)
	return at
}

// oldest returns the turn of the first that waits in a backend's lines of jobs.
func (x *index) oldest(backend string) int64 {
	first := int64(math.MaxInt64)
	for l, r := range x.lines {
		if l.jobs && l.backend == backend && len(r) > 0 {
			first = min(first, r[0].turn)
		}
	}
	return first
}

// head returns who is next in a line; empty when nobody is.
func (x *index) head(l line) spawner.ID {
	if line := x.lines[l]; len(line) > 0 {
		return line[0].id
	}
	return ""
}

// route finds the session of a hub to which a decoded URL path belongs: the active one with the longest prefix of path.
func (x *index) route(hub, path string) (spawner.ID, bool) {
	path = path[:min(len(path), x.longest)] // no prefix is longer, and a visitor's path may be
	for end := len(path); end > 0; end = strings.LastIndexByte(path[:end-1], '/') + 1 {
		if id, ok := x.routes[route{hub, path[:end]}]; ok {
			return id, true
		}
		if end == 1 {
			break
		}
	}
	return "", false
}

// server finds a user's sessions of one server name that match.
func (x *index) server(hub string, user spawner.User, name string, match func(*entry) bool) *entry {
	for _, e := range x.owned[spawner.Principal{Hub: hub, User: user}] {
		if e.Kind.HubServer() && e.Name == name && match(e) {
			return e
		}
	}
	return nil
}
