package spawner

import (
	"cmp"
	"slices"
	"strings"

	"slipway/internal/gpu"
)

// owner is a user of a hub.
type owner struct {
	hub  string
	user User
}

func (w Workload) owner() owner { return owner{w.Hub, w.Owner} }

// launch names one start, as the hub that asked for it does.
type launch struct{ hub, name string }

// route is a path of a hub.
type route struct{ hub, prefix string }

// ticket is a place in line. It has no time: a clock that is set would mix up the line.
type ticket struct {
	turn int64
	id   ID
}

func (w Workload) ticket() ticket { return ticket{w.Turn, w.ID} }

func (t ticket) compare(o ticket) int {
	return cmp.Or(cmp.Compare(t.turn, o.turn), cmp.Compare(t.id, o.id))
}

// row are places in line, in order.
type row []ticket

func (r row) with(t ticket) row {
	at, _ := slices.BinarySearchFunc(r, t, ticket.compare)
	return slices.Insert(r, at, t)
}

func (r row) without(t ticket) row {
	if at, ok := slices.BinarySearchFunc(r, t, ticket.compare); ok {
		return slices.Delete(r, at, at+1)
	}
	return r
}

// line is where workloads stand that wait for the same: room of a backend and, with a mode, a slice of a GPU. Who waits for a GPU does
// not hold up who needs none. Within a line the first is served first; between lines see Manager.yieldsLocked.
type line struct {
	backend string
	mode    gpu.Mode // empty: no GPU is wanted
	jobs    bool     // of a Remote: its jobs, in a line beside that of its sessions
}

// line gives the line in which w stands when it waits.
func (w Workload) line() line { return line{w.Backend, w.gpuHere().Mode, w.Remote && w.Kind == Job} }

// gpuHere is what w asks of the GPUs that the service leases. Those of a Remote are the batch system's.
func (w Workload) gpuHere() gpu.Request {
	if w.Remote {
		return gpu.Request{}
	}
	return w.Spec.GPU
}

// index finds workloads without looking at all of them: what a request costs must not grow with what else there is. It agrees
// with the records at all times, for changeLocked keeps it. The Manager's lock guards it.
type index struct {
	owned    map[owner]map[ID]*entry
	launches map[launch]ID // of sessions, the current ones; their hub gives each a name of its own
	routes   map[route]ID  // of active sessions
	longest  int           // of their prefixes so far
	lines    map[line]row
	shares   map[line]map[client]row // the lines again, of each client apart: whoever may have no more now is passed by at once
	scans    map[string][]*entry     // the points of each, in order
}

func newIndex() index {
	return index{owned: map[owner]map[ID]*entry{}, launches: map[launch]ID{}, routes: map[route]ID{}, lines: map[line]row{}, shares: map[line]map[client]row{}, scans: map[string][]*entry{}}
}

// put enters e, which was before until now; the zero before is that of a new one.
func (x *index) put(before Workload, e *entry) {
	if before.ID != "" {
		x.drop(before)
	}
	o := e.owner()
	if x.owned[o] == nil {
		x.owned[o] = map[ID]*entry{}
	}
	x.owned[o][e.ID] = e
	if e.Scan != "" {
		at, _ := x.point(e.Workload)
		x.scans[e.Scan] = slices.Insert(x.scans[e.Scan], at, e)
	}
	if e.Kind != Job {
		x.launches[launch{e.Hub, e.Launch}] = e.ID
	}
	if e.Phase.Active() && e.Spec.Prefix != "" {
		x.routes[route{e.Hub, e.Spec.Prefix}] = e.ID
		x.longest = max(x.longest, len(e.Spec.Prefix))
	}
	if e.waits() {
		l, c, t := e.line(), e.client(), e.ticket()
		if x.shares[l] == nil {
			x.shares[l] = map[client]row{}
		}
		x.lines[l], x.shares[l][c] = x.lines[l].with(t), x.shares[l][c].with(t)
	}
}

// drop forgets w.
func (x *index) drop(w Workload) {
	o := w.owner()
	delete(x.owned[o], w.ID)
	if len(x.owned[o]) == 0 {
		delete(x.owned, o)
	}
	if at, ok := x.point(w); ok {
		x.scans[w.Scan] = slices.Delete(x.scans[w.Scan], at, at+1)
	}
	if len(x.scans[w.Scan]) == 0 {
		delete(x.scans, w.Scan)
	}
	if l := (launch{w.Hub, w.Launch}); x.launches[l] == w.ID {
		delete(x.launches, l)
	}
	if r := (route{w.Hub, w.Spec.Prefix}); x.routes[r] == w.ID {
		delete(x.routes, r)
	}
	if w.waits() {
		l, c, t := w.line(), w.client(), w.ticket()
		x.lines[l], x.shares[l][c] = x.lines[l].without(t), x.shares[l][c].without(t)
		if len(x.shares[l][c]) == 0 {
			delete(x.shares[l], c)
		}
	}
}

// point gives the index of w among the points of its scan.
func (x *index) point(w Workload) (int, bool) {
	return slices.BinarySearchFunc(x.scans[w.Scan], w.Point, func(e *entry, n int) int { return cmp.Compare(e.Point, n) })
}

// find gives the index in line of w.
func (x *index) find(w Workload) (int, bool) {
	if !w.waits() {
		return 0, false
	}
	return slices.BinarySearchFunc(x.lines[w.line()], w.ticket(), ticket.compare)
}

// waits reports whether w stands in line for room: those that asked first go first, so that a large one is not starved by small ones.
func (w Workload) waits() bool {
	return w.Phase == Pending && w.Want == WantRunning && !w.Held && !w.Moving
}

// head gives who is next in a line; empty when nobody is.
func (x *index) head(l line) ID {
	if line := x.lines[l]; len(line) > 0 {
		return line[0].id
	}
	return ""
}

// route finds the session of a hub to which a decoded URL path belongs: the active one with the longest prefix of path.
func (x *index) route(hub, path string) (ID, bool) {
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
func (x *index) server(hub string, user User, name string, match func(*entry) bool) *entry {
	for _, e := range x.owned[owner{hub, user}] {
		if e.Kind != Job && e.Name == name && match(e) {
			return e
		}
	}
	return nil
}
