package sched

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// TestLinesAgreeWithTheRecords changes records in thousands of ways and looks each time whether the lines and the
// counts of users and of what is held are what a search of all of them finds.
func TestLinesAgreeWithTheRecords(t *testing.T) {
	for seed := range uint64(testenv.Rounds(4, 20)) {
		r := &records{rng: rand.New(rand.NewPCG(seed, 2)), sched: New(Config{Remote: map[string]bool{"docker": false, "local": false}})}
		for n := range 300 {
			r.change()
			if diff := r.disagreement(); diff != "" {
				t.Fatalf("seed %d, change %d: %s", seed, n, diff)
			}
		}
	}
}

// records are what a Scheduler is told of.
type records struct {
	rng   *rand.Rand
	work  []*spawner.Workload
	sched *Scheduler
	last  int64
}

// change makes a change as the engine may.
func (r *records) change() {
	r.last++
	if len(r.work) == 0 || r.rng.IntN(5) == 0 {
		w := r.enter()
		r.work = append(r.work, w)
		r.sched.Put(spawner.Workload{}, w, time.Now())
		return
	}
	at := r.rng.IntN(len(r.work))
	w := r.work[at]
	before := *w
	switch r.rng.IntN(8) {
	case 0:
		if !w.Phase.Active() { // what holds something is not dropped
			r.sched.Drop(*w)
			r.work = slices.Delete(r.work, at, at+1)
			return
		}
	case 1:
		w.Turn, w.Phase, w.Want = r.sched.NextTurn(), spawner.Pending, spawner.WantRunning
	case 2:
		w.Want = []spawner.Want{spawner.WantRunning, spawner.WantStopped, spawner.WantGone}[r.rng.IntN(3)]
	case 3:
		w.Held = !w.Held
	default:
		phases := []spawner.Phase{spawner.Pending, spawner.Leased, spawner.Starting, spawner.Booting, spawner.Running, spawner.Stopping, spawner.Stopped, spawner.Removing}
		w.Phase = phases[r.rng.IntN(len(phases))]
	}
	r.sched.Put(before, w, time.Now())
}

func (r *records) enter() *spawner.Workload {
	w := &spawner.Workload{
		ID: spawner.ID(fmt.Sprint("s-", r.last)), Kind: spawner.Lab, Hub: fmt.Sprint("hub", r.rng.IntN(2)), Owner: spawner.User(fmt.Sprint("user", r.rng.IntN(4))),
		Backend: "docker", Phase: spawner.Pending, Want: spawner.WantRunning, Turn: r.last - int64(r.rng.IntN(20)), // as records come from the store
	}
	w.Spec.Resources = spawner.Resources{CPUs: float64(1 + r.rng.IntN(4)), Memory: int64(r.rng.IntN(4)) << 30}
	if r.rng.IntN(2) == 0 {
		w.ID, w.Kind, w.Backend, w.Spec.Priority = spawner.ID(fmt.Sprint("j-", r.last)), spawner.Job, "local", r.rng.IntN(3)-1
		w.Spec.GPU = []gpu.Request{{}, {Mode: gpu.Whole}, {Mode: gpu.MIG, Profile: "1g"}, {Mode: gpu.MIG, Profile: "2g"}}[r.rng.IntN(4)]
	}
	return w
}

// disagreement says where the Scheduler differs from what a search of all records finds.
func (r *records) disagreement() string {
	want, jobs, use := newLines(), map[spawner.Principal]int{}, map[string]spawner.Capacity{}
	for _, w := range r.work {
		if w.Kind == spawner.Job && w.Phase.Active() {
			jobs[w.Principal()]++
		}
		if w.Phase.Active() && w.Phase != spawner.Pending {
			use[w.Backend] = plus(use[w.Backend], w.Spec.Resources, 1)
		}
		if w.Phase == spawner.Pending && w.Want == spawner.WantRunning && !w.Held {
			l, c := lineOf(*w), associationOf(*w)
			if want.byAssociation[l] == nil {
				want.byAssociation[l] = map[association]requestQueues{}
			}
			if want.byAssociation[l][c] == nil {
				want.byAssociation[l][c] = requestQueues{}
			}
			mine := want.byAssociation[l][c]
			want.byAge[l], mine[w.Spec.GPU] = append(want.byAge[l], ticketOf(*w)), append(mine[w.Spec.GPU], ticketOf(*w))
		}
	}
	for l, all := range want.byAge {
		slices.SortFunc(all, byAge)
		for _, own := range want.byAssociation[l] {
			for _, r := range own {
				slices.SortFunc(r, byPriority)
			}
		}
	}
	got := lines{byAge: maps.Clone(r.sched.lines.byAge), byAssociation: maps.Clone(r.sched.lines.byAssociation)}
	maps.DeleteFunc(got.byAge, func(_ line, all row) bool { return len(all) == 0 })
	maps.DeleteFunc(got.byAssociation, func(_ line, all map[association]requestQueues) bool { return len(all) == 0 })
	unexported := cmp.AllowUnexported(lines{}, association{}, line{}, ticket{})
	if diff := cmp.Diff(want, got, unexported); diff != "" {
		return "the lines: " + diff
	}
	if diff := cmp.Diff(jobs, r.sched.jobs); diff != "" {
		return "active jobs: " + diff
	}
	for _, backend := range []string{"docker", "local"} {
		if diff := cmp.Diff(use[backend], r.sched.Use(backend)); diff != "" {
			return "what is held of " + backend + ": " + diff
		}
	}
	return ""
}
