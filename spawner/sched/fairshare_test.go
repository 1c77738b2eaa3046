package sched

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/spawner"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestUseDecays(t *testing.T) {
	s := newShares(time.Hour)
	w := spawner.Workload{ID: "j-1", Kind: spawner.Job, Hub: "hub", Owner: "alice", Backend: "local"}
	s.hold(w, 0.5, noon)
	s.hold(w, 0.5, noon) // a repetition
	s.drop(w.ID, noon.Add(time.Minute))
	mine := s.of[associationOf(w)]
	if got := mine.use; math.Abs(got-30) > 0.5 {
		t.Errorf("half of it for a minute is %g s", got)
	}
	before := mine.use
	s.tick(noon.Add(61 * time.Minute))
	if got := mine.use / before; math.Abs(got-0.5) > 1e-9 {
		t.Errorf("after a half-life %g of it are left", got)
	}
	s.tick(noon) // the clock was set back
	if mine.use > before || mine.use < before/2 {
		t.Errorf("%g of %g", mine.use, before)
	}
	s.drop("j-2", noon)
}

func TestWhoHasHadLeastGoesFirst(t *testing.T) {
	s := newShares(time.Hour)
	of := func(user string) spawner.Workload {
		return spawner.Workload{ID: spawner.ID("j-" + user), Kind: spawner.Job, Hub: "hub", Owner: spawner.User(user), Backend: "local"}
	}
	first := func(want string) {
		t.Helper()
		best := associationOf(of("a"))
		for _, user := range []string{"b", "c"} {
			if c := associationOf(of(user)); s.compare(c, best) < 0 {
				best = c
			}
		}
		if string(best.of.User) != want {
			t.Errorf("%s goes first, want %s", best.of.User, want)
		}
	}
	for n, user := range []string{"c", "b", "a"} {
		w := of(user)
		w.Turn = int64(n)
		s.meet(w, noon)
	}
	first("c") // who asked first, where nobody has had anything
	s.hold(of("c"), 0.1, noon)
	first("b") // what is held counts at once
	s.hold(of("b"), 0.1, noon)
	s.hold(of("a"), 0.2, noon)
	first("c")
	for _, user := range []string{"a", "b", "c"} {
		s.drop(of(user).ID, noon)
	}
	first("c") // who was served first
	s.tick(noon.Add(time.Hour))
	s.hold(of("c"), 1, noon.Add(time.Hour))
	s.drop("j-c", noon.Add(2*time.Hour))
	first("b")
}

func TestPartOfABackend(t *testing.T) {
	l := newLedger(map[string]spawner.Capacity{"local": {Count: 4}, spawner.Host: {CPUs: 16, Memory: 64 << 30}, "docker": {}, "big": {CPUs: 100}}, map[string]bool{})
	l.remote["pool"], l.remote["big"] = true, true
	for name, tc := range map[string]struct {
		w    spawner.Workload
		want float64
	}{
		"one of four places":  {spawner.Workload{Backend: "local", Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30}}}, 0.25},
		"half of the memory":  {spawner.Workload{Backend: "local", Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 1, Memory: 32 << 30}}}, 0.5},
		"most of a GPU":       {spawner.Workload{Backend: "local", Spec: spawner.Spec{GPU: gpu.Request{Mode: gpu.MPS, Percent: 80}}}, 0.8},
		"of what has no end":  {spawner.Workload{Backend: "pool", RemoteRecord: spawner.RemoteRecord{Remote: true}, Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 16}, GPU: gpu.Request{Mode: gpu.Whole}}}, 0.25},
		"of another's limits": {spawner.Workload{Backend: "big", RemoteRecord: spawner.RemoteRecord{Remote: true}, Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 10}}}, 0.1},
	} {
		if got := l.part(tc.w); got != tc.want {
			t.Errorf("%s: %g, want %g", name, got, tc.want)
		}
	}
}

// TestHeadOfManyIsFoundAtOnce: who is next of 10,000 points beside a hundred others' jobs is found without looking at
// the points.
func TestHeadOfManyIsFoundAtOnce(t *testing.T) {
	m := line10k(100, 10_000)
	const looks = 2000
	took := processorTime(t, func() {
		for range looks {
			if e := m.head(line{backend: "local", jobs: true}); e == nil || e.Owner != "user1" {
				t.Fatalf("%+v", e)
			}
		}
	})
	if took /= looks; took > 2*time.Millisecond {
		t.Errorf("a look takes %s", took)
	}
}

// TestShortUseIsSaved: what a job has had that began and ended between two counts is saved with the next.
func TestShortUseIsSaved(t *testing.T) {
	m := crowded(1, 1)
	e := m.work["j-0"]
	before := *e
	e.Phase = spawner.Stopped
	if m.Put(before, e, time.Now()); !m.unsaved[e.Principal()] {
		t.Error("it is not to be saved")
	}
}

// TestStandingIsRemembered: what places are said by agrees at all times with what users have had.
func TestStandingIsRemembered(t *testing.T) {
	m := line10k(20, 50)
	l, rnd := line{backend: "local", jobs: true}, rand.New(rand.NewPCG(1, 2))
	naive := func(w *spawner.Workload) (ahead int) {
		c := associationOf(*w)
		own := m.lines.byAssociation[l][c].before(ticketOf(*w))
		for other, b := range m.lines.byAssociation[l] {
			n := own
			if other != c && m.shares.compare(other, c) < 0 {
				n++
			}
			if other != c {
				ahead += min(b.size(), n)
			}
		}
		return ahead + own
	}
	for n := range 500 {
		e := m.work[spawner.ID(fmt.Sprint("j-", 2+rnd.IntN(len(m.work)-2)))]
		before := *e
		e.Phase = []spawner.Phase{spawner.Pending, spawner.Running, spawner.Stopped}[rnd.IntN(3)]
		if m.Put(before, e, time.Now()); n%10 == 0 {
			m.shares.tick(time.Now())
		}
		asks := m.work[spawner.ID(fmt.Sprint("j-", 1+rnd.IntN(len(m.work)-1)))]
		for _, w := range []spawner.Workload{*asks, {ID: "j-new", Kind: spawner.Job, Hub: "hub", Owner: "zoe", Backend: "local", Turn: 1 << 40}} {
			if got, want := m.ahead(&w), naive(&w); got != want {
				t.Fatalf("after change %d %d go before %s of %s, want %d", n, got, w.ID, w.Owner, want)
			}
		}
		for c, b := range m.lines.byAssociation[l] {
			if head := m.head(l); head == nil || c != associationOf(*head) && b.size() > 0 && m.shares.compare(c, associationOf(*head)) < 0 {
				t.Fatalf("after change %d %+v goes before the head %+v", n, c, head)
			}
		}
	}
}

// TestPlacesOfAllUsers: to say where everybody stands costs no look at all users for each.
func TestPlacesOfAllUsers(t *testing.T) {
	m := line10k(1000, 10)
	took := processorTime(t, func() {
		for _, e := range m.work {
			m.Queue(e)
		}
	})
	if took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

// line10k has one user who holds a place and has many jobs waiting, and others with ten each.
func line10k(users, many int) *Scheduler {
	m := crowded(0, 0)
	m.ledger.capacity["local"] = spawner.Capacity{Count: 1}
	n := 0
	add := func(user int, phase spawner.Phase) {
		n++
		m.enter(spawner.Workload{ID: spawner.ID(fmt.Sprint("j-", n)), Kind: spawner.Job, Hub: "hub", Owner: spawner.User(fmt.Sprint("user", user)), Backend: "local",
			Want: spawner.WantRunning, Phase: phase, Turn: int64(n)})
	}
	add(0, spawner.Running)
	for range many {
		add(0, spawner.Pending)
	}
	for user := 1; user < users; user++ {
		for range 10 {
			add(user, spawner.Pending)
		}
	}
	return m
}

// BenchmarkTurn measures what it costs to say where one of 10,000 points stands, and who is next.
func BenchmarkTurn(b *testing.B) {
	m := line10k(100, 10_000)
	e := m.work["j-5000"]
	b.Run("queue", func(b *testing.B) {
		for b.Loop() {
			m.Queue(e)
		}
	})
	b.Run("head", func(b *testing.B) {
		for b.Loop() {
			m.head(line{backend: "local", jobs: true})
		}
	})
}
