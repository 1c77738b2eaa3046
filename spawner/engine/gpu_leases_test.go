package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
)

// newGPUService is a service on a host with one GPU of so many parts.
func newGPUService(t *testing.T, parts int) (*service, *spawnertest.GPUs) {
	s, g := newService(t), spawnertest.NewGPUs(parts)
	s.kill()
	s.config.GPUs, s.config.Launch.SelfTest = g, 10*time.Second
	s.config.Capacity = map[string]spawner.Capacity{"local": {Count: 4}}
	g.Hold(func() []gpu.Lease { return s.engine.Leases() })
	s.start()
	t.Cleanup(func() {
		for _, f := range g.Faults() {
			t.Error(f)
		}
	})
	return s, g
}

// idles has a session's agent say that nothing goes on in it.
func (s *service) idles(id spawner.ID) { s.crew.Hand(id).Act(control.Activity{Asked: true, Quiet: -1}) }

// onGPU asks for a part of it.
func onGPU(user, launch string) spawner.SessionRequest {
	r := request(user, "", launch)
	r.Spec.GPU = part()
	return r
}

func part() gpu.Request { return gpu.Request{Mode: gpu.MIG, Profile: spawnertest.Part} }

func TestSliceOfALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newGPUService(t, 1)
		w := s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Running)
		if w.Slice == nil || g.InUse()[0] != string(w.ID) {
			t.Fatalf("it holds %v, in use is %v", w.Slice, g.InUse())
		}
		if app := s.crew.Hand(w.ID).App(); app.SelfTest == nil || app.SelfTest.Argv[1] != "selftest" {
			t.Errorf("no self-test: %+v", app.SelfTest)
		}
		second := s.startSession(onGPU("bob", "two"))
		synctest.Wait()
		if q := s.Queue(second); q.Place != 1 || !strings.Contains(q.Lacks, "0 of 1 free") {
			t.Errorf("the second: %+v", q)
		}
		// Who needs no GPU is not held up by who waits for one.
		s.reach(s.startSession(request("carol", "", "three")).ID, spawner.Running)
		if leases := s.engine.Leases(); len(leases) != 1 || leases[0].Holder != string(w.ID) {
			t.Errorf("leases: %v", leases)
		}
		s.restart()
		if leases := s.engine.Leases(); len(leases) != 1 || leases[0].Holder != string(w.ID) {
			t.Errorf("leases after a restart: %v", leases)
		}
		if _, err := s.Stop(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		if now := s.reach(second.ID, spawner.Running); g.InUse()[0] != string(second.ID) || now.Slice == nil {
			t.Errorf("in use: %v", g.InUse())
		}
		if w := s.reach(w.ID, spawner.Stopped); w.Slice != nil {
			t.Errorf("stopped, and holds %v", w.Slice)
		}
	})
}

func TestSliceRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newGPUService(t, 1)
		r := onGPU("alice", "one")
		r.Spec.GPU.Profile = "7g.141gb"
		if _, err := s.StartSession(t.Context(), hub, r); !errs.Is(err, errs.OverQuota) {
			t.Errorf("what there never is: %v", err)
		}
		s.kill()
		s.config.GPUs = nil
		s.start()
		if _, err := s.StartSession(t.Context(), hub, onGPU("alice", "two")); !errs.Is(err, errs.Missing) {
			t.Errorf("without GPUs: %v", err)
		}
	})
}

// A place that cannot be made, and one that the self-test finds bad, are left for another; the start goes on.
func TestBadSliceIsLeft(t *testing.T) {
	for name, spoil := range map[string]func(*service, *spawnertest.GPUs){
		"made": func(_ *service, g *spawnertest.GPUs) { g.Rot(0, "in use by another client") },
		"tested": func(s *service, _ *spawnertest.GPUs) {
			first := true
			s.crew.Boot(func(h *spawnertest.Hand) {
				if first {
					first = false
					h.Fault("wrong result of a kernel")
					return
				}
				h.Ready()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := newGPUService(t, 2)
				spoil(s, g)
				w := s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Running)
				if w.Slice.Placement.Start != 1 || w.Moves != 1 || w.Moving || w.Run() == w.Launch {
					t.Errorf("it is on %v after %d moves", w.Slice, w.Moves)
				}
				if token := s.crew.Hand(w.ID).App().Env["JUPYTERHUB_API_TOKEN"]; token != "hunter2-one" {
					t.Errorf("its secrets did not come along: %q", token)
				}
			})
		})
	}
}

// A workload that finds every place bad is rather at fault itself.
func TestBadSlicesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newGPUService(t, 8)
		s.crew.Boot(func(h *spawnertest.Hand) { h.Fault("no CUDA in this image") })
		w := s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Stopped)
		if !w.Outcome.Failed || !strings.Contains(w.Outcome.Reason, "no CUDA in this image") || w.Outcome.Remedy == "" {
			t.Errorf("outcome %+v", w.Outcome)
		}
		if len(g.InUse()) > 0 {
			t.Errorf("still in use: %v", g.InUse())
		}
	})
}

// A driver that does not answer fails no start: it is waited for, as for any other part.
func TestDriverDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newGPUService(t, 1)
		g.Fall()
		w := s.startSession(onGPU("alice", "one"))
		time.Sleep(time.Hour)
		if got, _ := s.Get(t.Context(), admin, w.ID); got.Phase != spawner.Starting {
			t.Errorf("it is %s", got.Phase)
		}
		g.Mend()
		s.reach(w.ID, spawner.Running)
	})
}

// lending is a service whose one part is held by an idle session of alice's.
func lending(t *testing.T) (s *service, g *spawnertest.GPUs, session spawner.Workload) {
	s, g = newGPUService(t, 1)
	s.kill()
	s.config.Lend = engine.Lend{On: true, After: 20 * time.Minute, Recall: 30 * time.Second, Idle: func(string, gpu.Slice) (time.Time, bool) { return time.Time{}, true }}
	s.start()
	session = s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Running)
	s.idles(session.ID)
	return s, g, session
}

func gpuJob(preemptible bool) spawner.JobRequest {
	r := simpleJob()
	r.GPU, r.Preemptible = part(), preemptible
	return r
}

func TestLending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, session := lending(t)
		stubborn := s.submit(bob, gpuJob(false))
		job := s.submit(bob, gpuJob(true))
		time.Sleep(10 * time.Minute)
		if w, _ := s.Get(t.Context(), admin, job.ID); w.Phase != spawner.Pending {
			t.Fatalf("lent after ten minutes: %s", w.Phase)
		}
		if _, err := s.Stop(t.Context(), bob, stubborn.ID); err != nil { // it stands before the other, and may not borrow
			t.Fatal(err)
		}
		time.Sleep(11 * time.Minute)
		w := s.reach(job.ID, spawner.Running)
		if w.Lender != session.ID || !w.Slice.Same(*session.Slice) {
			t.Fatalf("it runs on %v of %q", w.Slice, w.Lender)
		}
		if leases := s.engine.Leases(); len(leases) != 1 || leases[0].Holder != string(session.ID) || leases[0].Lent != string(job.ID) {
			t.Errorf("leases: %+v", leases)
		}
		s.restart()
		if leases := s.engine.Leases(); len(leases) != 1 || leases[0].Lent != string(job.ID) {
			t.Errorf("leases after a restart: %+v", leases)
		}
		back := time.Now()
		s.reach(job.ID, spawner.Running)
		s.Visit(session.ID, true)
		w = s.reach(job.ID, spawner.Pending)
		if took := time.Since(back); took > time.Minute {
			t.Errorf("called back after %s", took)
		}
		if w.Moves != 1 || w.Slice != nil || w.Lender != "" || w.Want != spawner.WantRunning {
			t.Errorf("after the recall: %+v", w)
		}
		if len(g.InUse()) != 1 {
			t.Errorf("the session's slice was released: %v", g.InUse())
		}
		// The session leaves: the job gets the slice for itself, and comes to its end.
		if _, err := s.Stop(t.Context(), alice, session.ID); err != nil {
			t.Fatal(err)
		}
		if w := s.reach(job.ID, spawner.Running); w.Lender != "" {
			t.Errorf("it borrows from %s, which has stopped", w.Lender)
		}
		s.crew.Hand(job.ID).Exit(0)
		if w := s.reach(job.ID, spawner.Stopped); w.Outcome.Failed || len(g.InUse()) > 0 {
			t.Errorf("%+v, in use %v", w.Outcome, g.InUse())
		}
	})
}

// A session that is stopped while its slice is lent leaves the slice to the job: nobody else gets it.
func TestLenderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, session := lending(t)
		time.Sleep(21 * time.Minute)
		job := s.submit(bob, gpuJob(true))
		s.reach(job.ID, spawner.Running)
		if _, err := s.Stop(t.Context(), alice, session.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(session.ID, spawner.Stopped)
		for range 2 {
			if leases := s.engine.Leases(); len(leases) != 1 || leases[0].Holder != string(job.ID) {
				t.Errorf("leases: %+v", leases)
			}
			s.restart()
		}
		waiting := s.startSession(onGPU("carol", "two"))
		synctest.Wait()
		if q := s.Queue(waiting); q.Place != 1 {
			t.Errorf("a second owner: %+v", q)
		}
		s.reach(job.ID, spawner.Running)
		s.crew.Hand(job.ID).Exit(0)
		s.reach(waiting.ID, spawner.Running)
		if g.InUse()[0] != string(waiting.ID) {
			t.Errorf("in use: %v", g.InUse())
		}
	})
}

// Whatever happens, no place has two owners.
func TestSlicesSoak(t *testing.T) {
	for seed := range testenv.Rounds(2, 12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { sliceSoak(t, uint64(seed)) })
		})
	}
}

func sliceSoak(t *testing.T, seed uint64) {
	s, g, _ := lending(t)
	if !testing.Verbose() {
		s.config.Logger = slog.New(slog.DiscardHandler)
		s.restart()
	}
	dice := newDice(seed)
	s.crew.Boot(func(h *spawnertest.Hand) {
		switch dice.n(8) {
		case 0:
			h.Fault("bad")
		case 1:
			h.Exit(1)
		default:
			h.Ready()
			time.AfterFunc(dice.upTo(time.Hour), func() { h.Exit(0) })
		}
	})
	for n := range 60 {
		switch dice.n(9) {
		case 0, 1, 2:
			r := onGPU(of(dice, "alice", "bob", "carol"), fmt.Sprint("l", n))
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				_, _ = s.StartSession(ctx, hub, r)
			}()
		case 3, 4:
			s.submit(bob, gpuJob(dice.n(2) == 0))
		case 5:
			if g.Mend(); dice.n(2) == 0 {
				g.Rot(0, "in use by another client")
			}
		case 6:
			s.restart()
		default:
			all, _ := s.List(t.Context(), spawner.Caller{System: true})
			if w := of(dice, all...); dice.n(2) == 0 {
				s.Visit(w.ID, true)
			} else {
				_, _ = s.Stop(t.Context(), spawner.Caller{System: true}, w.ID)
			}
		}
		time.Sleep(dice.upTo(30 * time.Minute))
		synctest.Wait()
		s.oneOwner(seed)
	}
	time.Sleep(time.Minute)
}

// oneOwner looks at the records: of each place there is one owner, and one borrower at most.
func (s *service) oneOwner(seed uint64) {
	s.t.Helper()
	all, err := s.List(s.t.Context(), spawner.Caller{System: true})
	if err != nil {
		s.t.Fatal(err)
	}
	byID, owners, borrowers := map[spawner.ID]spawner.Workload{}, map[gpu.Placement]spawner.ID{}, map[gpu.Placement]spawner.ID{}
	for _, w := range all {
		byID[w.ID] = w
	}
	for _, w := range all {
		if w.Slice == nil {
			continue
		}
		if !w.Phase.Active() || w.Phase == spawner.Pending {
			s.t.Errorf("seed %d: %s is %s and holds %v", seed, w.ID, w.Phase, w.Slice)
		}
		role, at := owners, w.Slice.Placement
		if l := byID[w.Lender]; l.Slice != nil && l.Slice.Same(*w.Slice) {
			role = borrowers
		}
		if other := role[at]; other != "" {
			s.t.Errorf("seed %d: %s and %s both hold %v", seed, other, w.ID, at)
		}
		role[at] = w.ID
	}
}

func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newGPUService(t, 1)
		w := s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Running)
		s.engine.Tell(t.Context(), w.ID, "use less")
		if got := s.crew.Hand(w.ID).Notices(); len(got) != 1 || got[0] != "use less" {
			t.Errorf("told: %q", got)
		}
		for range 2 {
			if err := s.engine.Evict(t.Context(), w.ID, "it used 20G of 10G", "ask for more"); err != nil {
				t.Fatal(err)
			}
		}
		if w := s.reach(w.ID, spawner.Stopped); !w.Outcome.Failed || w.Outcome.Reason != "it used 20G of 10G" || len(g.InUse()) > 0 {
			t.Errorf("%+v, in use %v", w.Outcome, g.InUse())
		}
		if err := s.engine.Evict(t.Context(), "s-nobody", "", ""); err != nil {
			t.Error(err)
		}
	})
}
