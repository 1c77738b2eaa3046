package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

func TestKernelEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		session := s.startSession(request("alice", "", "lab"))
		s.reach(session.ID, spawner.Running)
		inside := alice
		inside.Workload = session.ID
		kernel, other := s.startKernel(inside, "one"), s.startKernel(alice, "two")
		if s.reach(kernel.ID, spawner.Running).Session != session.ID {
			t.Errorf("it is of %q", kernel.Session)
		}
		s.reach(other.ID, spawner.Running)
		time.Sleep(time.Minute)
		if s.phase(kernel.ID) != spawner.Running {
			t.Error("it ends before its session")
		}
		if _, err := s.Stop(t.Context(), hub, session.ID); err != nil {
			t.Fatal(err)
		}
		s.gone(kernel.ID)
		if s.phase(other.ID) != spawner.Running {
			t.Error("one from outside ends with it")
		}
	})
}

// A kernel whose client stays away ends, busy or not. While the service is away nobody can come: that time does not
// count.
func TestDesertedKernelEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		r := kernelRequest("one")
		r.Spec.Life.Away = 5 * time.Minute
		w, err := s.StartKernel(t.Context(), alice, r)
		if err != nil {
			t.Fatal(err)
		}
		loose := s.startKernel(alice, "two")
		s.reach(w.ID, spawner.Running)
		s.reach(loose.ID, spawner.Running)
		left := control.Activity{Asked: true, Kernels: 1, Busy: 1, Left: true}
		s.crew.Hand(w.ID).Act(left)
		s.crew.Hand(loose.ID).Act(left)
		time.Sleep(4 * time.Minute)
		back := left
		back.Left = false
		s.crew.Hand(w.ID).Act(back)
		time.Sleep(2 * time.Minute)
		s.crew.Hand(w.ID).Act(left)
		time.Sleep(3 * time.Minute)
		if s.phase(w.ID) != spawner.Running {
			t.Error("it ends though its client came back")
		}
		s.kill()
		time.Sleep(time.Hour)
		s.start()
		time.Sleep(3 * time.Minute)
		if s.phase(w.ID) != spawner.Running {
			t.Error("it ends for the time in which the service was away")
		}
		s.gone(w.ID)
		if s.phase(loose.ID) != spawner.Running {
			t.Error("one that is not tied ends too")
		}
	})
}

// A tied kernel that waits for its slice ends when nobody asks for it any more: whoever has asked so long is gone, and
// nobody would use the slice.
func TestTiedKernelThatWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		r := kernelRequest("all")
		r.Spec.Resources.CPUs = 2
		all, err := s.StartKernel(t.Context(), alice, r)
		if err != nil {
			t.Fatal(err)
		}
		s.reach(all.ID, spawner.Running)
		r = kernelRequest("one")
		r.Spec.Life.Away = 5 * time.Minute
		w, err := s.StartKernel(t.Context(), alice, r)
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			time.Sleep(time.Minute / 2)
			s.Visit(w.ID, false)
		}
		if p := s.phase(w.ID); p == spawner.Running || !p.Active() {
			t.Fatalf("it is %s though it is asked for", p)
		}
		time.Sleep(4 * time.Minute)
		s.kill()
		time.Sleep(time.Hour)
		s.start()
		time.Sleep(4 * time.Minute)
		if p := s.phase(w.ID); !p.Active() {
			t.Error("it ends for the time in which the service was away")
		}
		s.gone(w.ID)
	})
}

// A kernel of which no client was ever told ends before it idles; one that had a client for a moment is hers.
func TestKernelThatNobodyKnowsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		var all []spawner.Workload
		for _, launch := range []string{"unknown", "known"} {
			r := kernelRequest(launch)
			r.Spec.Life.FirstClient = 10 * time.Minute
			w, err := s.StartKernel(t.Context(), alice, r)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s.reach(w.ID, spawner.Running))
			s.crew.Hand(w.ID).Act(control.Activity{Asked: true, Kernels: 1, Left: launch == "unknown"})
		}
		time.Sleep(5 * time.Minute)
		s.crew.Hand(all[1].ID).Act(control.Activity{Asked: true, Kernels: 1, Left: true})
		if s.phase(all[0].ID) != spawner.Running {
			t.Error("it has no time to be found")
		}
		s.gone(all[0].ID)
		time.Sleep(time.Hour)
		if s.phase(all[1].ID) != spawner.Running {
			t.Error("one that a client knows ends with it")
		}
	})
}
