package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// TestIndexAgreesWithTheRecords changes records in thousands of ways and looks each time whether the index says what a
// search of all of them does.
func TestIndexAgreesWithTheRecords(t *testing.T) {
	for seed := range uint64(testenv.Rounds(4, 20)) {
		r := &registry{rng: rand.New(rand.NewPCG(seed, 2)), work: map[spawner.ID]*Entry{}, index: newIndex()}
		for n := range 300 {
			r.change()
			if diff := r.disagreement(); diff != "" {
				t.Fatalf("seed %d, change %d: %s", seed, n, diff)
			}
		}
	}
}

// registry has records and their index.
type registry struct {
	rng   *rand.Rand
	work  map[spawner.ID]*Entry
	index index
	last  int64 // launch, turn and number of a workload
}

// change makes a change as the Manager may: one session of a server at most is active.
func (r *registry) change() {
	r.last++
	if len(r.work) == 0 || r.rng.IntN(5) == 0 {
		r.enter()
		return
	}
	ids := slices.Sorted(maps.Keys(r.work))
	e := r.work[ids[r.rng.IntN(len(ids))]]
	before := e.Workload
	switch r.rng.IntN(8) {
	case 0:
		r.index.drop(e.Workload)
		delete(r.work, e.ID)
		return
	case 1, 2:
		if e.Kind != spawner.Job && e.Phase == spawner.Stopped && !r.active(e.Workload) {
			r.start(e)
		}
	case 3:
		e.Want = []spawner.Want{spawner.WantRunning, spawner.WantStopped, spawner.WantGone}[r.rng.IntN(3)]
	default:
		phases := []spawner.Phase{spawner.Pending, spawner.Leased, spawner.Starting, spawner.Booting, spawner.Running, spawner.Stopping, spawner.Stopped, spawner.Removing}
		if phase := phases[r.rng.IntN(len(phases))]; !phase.Active() || e.Phase.Active() || !r.active(e.Workload) {
			e.Phase = phase
		}
	}
	r.index.put(before, e)
}

func (r *registry) enter() {
	hub, user := fmt.Sprint("hub", r.rng.IntN(2)), spawner.User(fmt.Sprint("user", r.rng.IntN(4)))
	w := spawner.Workload{ID: spawner.ID(fmt.Sprint("s-", r.last)), Kind: spawner.Lab, Hub: hub, Owner: user, Name: []string{"", "a", "ab"}[r.rng.IntN(3)], Backend: "docker"}
	if r.rng.IntN(4) == 0 {
		w.ID, w.Kind, w.Backend = spawner.ID(fmt.Sprint("j-", r.last)), spawner.Job, "local"
		w.Spec.Priority, w.Spec.GPU = r.rng.IntN(3)-1, []gpu.Request{{}, {Mode: gpu.Whole}, {Mode: gpu.MIG, Profile: "1g"}, {Mode: gpu.MIG, Profile: "2g"}}[r.rng.IntN(4)]
		if r.rng.IntN(2) == 0 {
			w.Scan, w.Point = fmt.Sprint("scan-", r.rng.IntN(3)), int(r.last)*7%300
		}
	}
	if w.Kind != spawner.Job && r.active(w) {
		return
	}
	e := NewEntry(w)
	r.start(e)
	r.work[e.ID] = e
	r.index.put(spawner.Workload{}, e)
}

func (r *registry) start(e *Entry) {
	e.Phase, e.Want, e.Launch, e.Turn = spawner.Pending, spawner.WantRunning, fmt.Sprint("launch", r.last), r.last-int64(r.rng.IntN(20)) // as records come from the store
	if e.Kind == spawner.Job {
		return
	}
	e.Spec.Prefix = "/" + strings.Repeat("base/", r.rng.IntN(2)) + string(e.Owner) + "/"
	if e.Name != "" {
		e.Spec.Prefix += e.Name + "/"
	}
}

// active reports whether a server has an active session.
func (r *registry) active(w spawner.Workload) bool {
	for _, e := range r.work {
		if e.Kind != spawner.Job && e.Hub == w.Hub && e.Owner == w.Owner && e.Name == w.Name && e.Phase.Active() {
			return true
		}
	}
	return false
}

// disagreement says where the index differs from a new one, and from a search.
func (r *registry) disagreement() string {
	want := newIndex()
	want.longest = r.index.longest // of all that there were
	for _, e := range r.work {
		o := spawner.Principal{Hub: e.Hub, User: e.Owner}
		if want.owned[o] == nil {
			want.owned[o] = map[spawner.ID]*Entry{}
		}
		want.owned[o][e.ID] = e
		if e.Scan != "" {
			want.scans[e.Scan] = append(want.scans[e.Scan], e)
			want.stays[e.Scan] = want.stays[e.Scan].with(&e.Workload, 1)
		}
		if e.Kind != spawner.Job {
			want.launches[launchName{e.Hub, e.Launch}] = e.ID
		}
		if e.Kind != spawner.Job && e.Phase.Active() {
			want.routes[route{e.Hub, e.Spec.Prefix}] = e.ID
		}
	}
	for _, points := range want.scans {
		slices.SortFunc(points, func(a, b *Entry) int { return a.Point - b.Point })
	}
	same := cmp.Comparer(func(a, b *Entry) bool { return a == b })
	if diff := cmp.Diff(want, r.index, same, cmp.AllowUnexported(index{}, launchName{}, route{}, stay{})); diff != "" {
		return diff
	}
	return r.misrouted()
}

// misrouted says which paths do not lead to the active session with the longest prefix.
func (r *registry) misrouted() string {
	for _, hub := range []string{"hub0", "hub1"} {
		for _, path := range []string{"/", "", "/user1", "/user1/", "/user1/a", "/user1/ab/x", "/base/user2/a/lab/tree//x/", "/user3/" + strings.Repeat("x/", 100)} {
			var best *Entry
			for _, e := range r.work {
				if e.Kind != spawner.Job && e.Hub == hub && e.Phase.Active() && strings.HasPrefix(path, e.Spec.Prefix) &&
					(best == nil || len(e.Spec.Prefix) > len(best.Spec.Prefix)) {
					best = e
				}
			}
			if id, ok := r.index.route(hub, path); ok != (best != nil) || best != nil && id != best.ID {
				return fmt.Sprintf("%s of %s leads to %q, %v; want %+v", path, hub, id, ok, best)
			}
		}
	}
	return ""
}
