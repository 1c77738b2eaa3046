package sched

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"slipway/spawner"
)

// crowded is a Scheduler with many jobs of users who have as many on a Remote as they may.
func crowded(users, each int) *Scheduler {
	s := New(Config{Capacity: map[string]spawner.Capacity{"pool": {PerUser: 1}}, Remote: map[string]bool{"pool": true, "local": false}})
	for n := range users * each {
		w := spawner.Workload{
			ID: spawner.ID(fmt.Sprint("j-", n)), Kind: spawner.Job, Hub: "hub", Owner: spawner.User(fmt.Sprint("user", n%users)), Backend: "pool", RemoteRecord: spawner.RemoteRecord{Remote: true},
			Want: spawner.WantRunning, Phase: spawner.Pending, Turn: int64(n),
		}
		if n < users {
			w.Phase = spawner.Running
		}
		s.enter(w)
	}
	return s
}

// enter takes in a new record.
func (s *Scheduler) enter(w spawner.Workload) *spawner.Workload {
	s.Put(spawner.Workload{}, &w, time.Now())
	return &w
}

// processorTime returns what f costs, however busy the machine is.
func processorTime(t *testing.T, f func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		const thread = 1 // RUSAGE_THREAD, which package syscall does not name
		var u syscall.Rusage
		if err := syscall.Getrusage(thread, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	f()
	return used() - before
}

// TestManyAtTheirLimit: what a look at one costs does not grow with how many wait.
func TestManyAtTheirLimit(t *testing.T) {
	m := crowded(2, 10_000)
	took := processorTime(t, func() {
		for n := range 19_998 {
			if q := m.Queue(m.work[spawner.ID(fmt.Sprint("j-", 2+n))]); q.Place != 1+n || q.Lacks == "" {
				t.Fatalf("%+v", q)
			}
			if e := m.head(line{backend: "pool", jobs: true}); e == nil || e.Turn != 2 {
				t.Fatalf("the head is %+v", e)
			}
		}
	})
	if took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestSessionsGoFirst: a session at a Remote does not wait for the jobs that wait there, and they do for it.
func TestSessionsGoFirst(t *testing.T) {
	m := crowded(1, 1000)
	m.ledger.capacity["pool"] = spawner.Capacity{Count: 1}
	session := m.enter(spawner.Workload{ID: "s-1", Kind: spawner.Lab, Hub: "hub", Owner: "user0", Backend: "pool", RemoteRecord: spawner.RemoteRecord{Remote: true}, Want: spawner.WantRunning, Phase: spawner.Pending, Turn: 5000})
	job := m.work["j-1"]
	if q := m.Queue(session); q.Place != 1 || q.Lacks != "1 of 1 places taken" {
		t.Errorf("%+v", q)
	}
	m.ledger.remove(*m.work["j-0"])
	if q := m.Queue(session); q.Place != 0 {
		t.Errorf("there is room, and it waits: %+v", q)
	}
	if q := m.Queue(job); q.Place != 1 || q.Lacks != "a session goes first" {
		t.Errorf("a job goes before it: %+v", q)
	}
}
