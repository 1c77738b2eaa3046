package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
)

// launchName is one start, as the hub that asked for it does.
type launchName struct{ hub, name string }

// route is a path of a hub.
type route struct{ hub, prefix string }

// index finds workloads without looking at all of them: what a request costs must not grow with what else there is. It
// agrees with the records at all times, for Tx keeps it. The Manager's lock guards it.
type index struct {
	owned    map[spawner.Principal]map[spawner.ID]*Entry
	launches map[launchName]spawner.ID // of sessions, the current ones; their hub gives each a name of its own
	routes   map[route]spawner.ID      // of active sessions
	longest  int                       // of their prefixes so far
	scans    map[string][]*Entry       // the points of each, in order
	stays    map[string]stay           // what keeps the points of each
	bundles  map[spawner.ID]int        // how many jobs have each
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
		s.ended = clock.Latest(s.ended, w.Outcome.At)
	}
	return s
}

func newIndex() index {
	return index{
		owned: map[spawner.Principal]map[spawner.ID]*Entry{}, launches: map[launchName]spawner.ID{},
		routes: map[route]spawner.ID{}, scans: map[string][]*Entry{}, stays: map[string]stay{},
		bundles: map[spawner.ID]int{},
	}
}

// put enters e, which was before until now; the zero before is that of a new one.
func (x *index) put(before spawner.Workload, e *Entry) {
	if before.ID != "" {
		x.drop(before)
	}
	o := e.Principal()
	if x.owned[o] == nil {
		x.owned[o] = map[spawner.ID]*Entry{}
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
	if e.Kind.HubServer() {
		x.launches[launchName{e.Hub, e.Launch}] = e.ID
	}
	if e.Phase.Active() && e.Spec.Prefix != "" {
		x.routes[route{e.Hub, e.Spec.Prefix}] = e.ID
		x.longest = max(x.longest, len(e.Spec.Prefix))
	}
}

// drop forgets w.
func (x *index) drop(w spawner.Workload) {
	o := w.Principal()
	delete(x.owned[o], w.ID)
	if len(x.owned[o]) == 0 {
		delete(x.owned, o)
	}
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
	if l := (launchName{w.Hub, w.Launch}); x.launches[l] == w.ID {
		delete(x.launches, l)
	}
	if r := (route{w.Hub, w.Spec.Prefix}); x.routes[r] == w.ID {
		delete(x.routes, r)
	}
}

// point returns the index of w among the points of its scan.
func (x *index) point(w spawner.Workload) (int, bool) {
	return slices.BinarySearchFunc(
		x.scans[w.Scan], w.Point, func(e *Entry, n int) int { return cmp.Compare(e.Point, n) },
	)
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
func (x *index) server(hub string, user spawner.User, name string, match func(*Entry) bool) *Entry {
	for _, e := range x.owned[spawner.Principal{Hub: hub, User: user}] {
		if e.Kind.HubServer() && e.Name == name && match(e) {
			return e
		}
	}
	return nil
}
