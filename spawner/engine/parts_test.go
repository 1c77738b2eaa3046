package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

func inGPUBubble(parts int, f func(*testing.T, *service, *spawnertest.GPUs)) func(*testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { s, g := newGPUService(t, parts); f(t, s, g) })
	}
}

// TestHostileImageTakesNothing: a user whose image fails every test gets no other user's parts taken out, however often
// she starts.
func TestHostileImageTakesNothing(t *testing.T) {
	inGPUBubble(8, func(t *testing.T, s *service, g *spawnertest.GPUs) {
		s.crew.Boot(func(h *spawnertest.Hand) { h.Fault("no CUDA in this image") })
		for n := range 5 {
			s.reach(s.startSession(onGPU("eve", fmt.Sprint("evil", n))).ID, spawner.Stopped)
		}
		if out := g.Condemned(); len(out) > 0 {
			t.Fatalf("taken out: %v", out)
		}
		// Somebody else is given another part first, for it may be true.
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		if w := s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Running); w.Moves != 0 {
			t.Errorf("%+v", w.Slice)
		}
	})(t)
}

// TestPartInDoubt: one user's word keeps a part from her start alone; others get it last, and decide.
func TestPartInDoubt(t *testing.T) {
	for _, good := range []bool{true, false} {
		inGPUBubble(2, func(t *testing.T, s *service, g *spawnertest.GPUs) {
			broken := func(h *spawnertest.Hand) {
				for id, w := range running(s.sessions) {
					if s.crew.Hand(id) == h && w.Slice.Placement.Start == 0 {
						h.Fault("wrong result of a kernel")
						return
					}
				}
				h.Ready()
			}
			s.crew.Boot(broken)
			a := s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Running)
			if a.Slice.Placement.Start != 1 || a.Moves != 1 || len(a.Bad) > 0 || len(g.Condemned()) > 0 {
				t.Errorf("%v after %d moves, bad %v, condemned %v", a.Slice, a.Moves, a.Bad, g.Condemned())
			}
			if good {
				s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
			}
			b := s.startSession(onGPU("bob", "two")) // only the part in doubt is left
			if good {
				if b = s.reach(b.ID, spawner.Running); b.Slice.Placement.Start != 0 {
					t.Errorf("bob has %v", b.Slice)
				}
				return
			}
			time.Sleep(time.Minute)
			if q := s.Queue(b); q.Place != 1 || g.Condemned()[0] != "wrong result of a kernel" {
				t.Errorf("%+v, condemned %v", q, g.Condemned())
			}
		})(t)
	}
}

// TestSpentStartHoldsUpNobody: who wants only what she has found bad herself does not stand in the way of others.
func TestSpentStartHoldsUpNobody(t *testing.T) {
	inGPUBubble(1, func(t *testing.T, s *service, g *spawnertest.GPUs) {
		s.crew.Boot(func(h *spawnertest.Hand) { h.Fault("no CUDA in this image") })
		eve := s.startSession(onGPU("eve", "one"))
		alice := s.startSession(onGPU("alice", "two"))
		w := s.reach(eve.ID, spawner.Stopped)
		if !w.Outcome.Failed || !strings.Contains(w.Outcome.Reason, "no CUDA in this image") || w.Outcome.Remedy == "" {
			t.Errorf("%+v", w.Outcome)
		}
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		if w := s.reach(alice.ID, spawner.Running); w.Moves != 0 || len(g.Condemned()) > 0 {
			t.Errorf("%+v", w)
		}
	})(t)
}

// TestBorrowedPartIsNotCondemned: what a job says of a part that a session has lent it harms the session's part in no
// way.
func TestBorrowedPartIsNotCondemned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, session := lending(t)
		s.crew.Boot(func(h *spawnertest.Hand) { h.Fault("no memory left") })
		time.Sleep(21 * time.Minute)
		first, second := s.submit(bob, gpuJob(true)), s.submit(alice, gpuJob(true))
		for _, job := range []spawner.Workload{first, second} {
			time.Sleep(2 * time.Minute)
			if w, _ := s.Get(t.Context(), admin, job.ID); w.Phase != spawner.Pending && w.Phase != spawner.Stopped {
				t.Errorf("%s is %s", w.ID, w.Phase)
			}
			if _, err := s.Stop(t.Context(), admin, job.ID); err != nil {
				t.Fatal(err)
			}
		}
		if w, _ := s.Get(t.Context(), admin, session.ID); w.Phase != spawner.Running || len(g.Condemned()) > 0 || g.InUse()[0] != string(session.ID) {
			t.Errorf("%s, condemned %v, in use %v", w.Phase, g.Condemned(), g.InUse())
		}
	})
}

// TestRecallsAreNoFaults: a job may be called back any number of times, and a bad part afterwards does not fail it.
func TestRecallsAreNoFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, session := lending(t)
		job := s.submit(bob, gpuJob(true))
		s.crew.Boot(func(h *spawnertest.Hand) { h.Print("at work\n"); h.Ready() })
		log, err := s.Log(t.Context(), bob, job.ID, 0, true)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		lines := make(chan string, 100)
		go func() { b, _ := io.ReadAll(log); lines <- string(b) }()
		for range 6 {
			time.Sleep(21 * time.Minute)
			if w := s.reach(job.ID, spawner.Running); w.Lender != session.ID {
				t.Fatalf("it runs on %v of %q", w.Slice, w.Lender)
			}
			time.Sleep(time.Minute)
			s.Visit(session.ID, true)
			s.reach(job.ID, spawner.Pending)
		}
		g.Rot(0, "in use by another client")
		if _, err := s.Stop(t.Context(), alice, session.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		g.Mend()
		w := s.reach(job.ID, spawner.Running)
		if w.Moves != 7 || s.crew.Hand(job.ID).App().Launch != w.Run() {
			t.Errorf("%d moves, run %s, the agent has %s", w.Moves, w.Run(), s.crew.Hand(job.ID).App().Launch)
		}
		time.Sleep(time.Minute)
		s.crew.Hand(job.ID).Exit(0)
		s.reach(job.ID, spawner.Stopped)
		if got := strings.Count(<-lines, "at work"); got != 7 {
			t.Errorf("who follows its log saw %d of 7 runs", got)
		}
	})
}

// TestDoneIsNotCalledBack: a job whose app has ended is not run again for its slice's owner, who gets it back anyway.
func TestDoneIsNotCalledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, session := lending(t)
		time.Sleep(21 * time.Minute)
		job := s.submit(bob, gpuJob(true))
		s.reach(job.ID, spawner.Running)
		h := s.crew.Hand(job.ID)
		h.Leave("result", "42")
		h.Exit(0)
		synctest.Wait()
		s.Visit(session.ID, true)
		if w := s.reach(job.ID, spawner.Stopped); w.Moves != 0 || w.Outcome.Failed || w.Outcome.Canceled {
			t.Errorf("%d moves, %+v", w.Moves, w.Outcome)
		}
	})
}

// TestRecallOutlivesAFullDisk: a recall that could not be saved is repeated, without another sign of life.
func TestRecallOutlivesAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, session := lending(t)
		time.Sleep(21 * time.Minute)
		job := s.submit(bob, gpuJob(true))
		s.reach(job.ID, spawner.Running)
		s.fill(true)
		s.Visit(session.ID, true)
		time.Sleep(time.Minute)
		if w, _ := s.Get(t.Context(), admin, job.ID); w.Phase != spawner.Running {
			t.Fatalf("it is %s", w.Phase)
		}
		s.fill(false)
		s.reach(job.ID, spawner.Pending)
	})
}

// TestUnheardIsNotLent: nothing is lent of a session whose agent does not say that nobody works in it.
func TestUnheardIsNotLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, session := lending(t)
		s.crew.Hand(session.ID).Act(control.Activity{Quiet: -1})
		job := s.submit(bob, gpuJob(true))
		time.Sleep(2 * time.Hour)
		if w, _ := s.Get(t.Context(), admin, job.ID); w.Phase != spawner.Pending {
			t.Errorf("it is %s", w.Phase)
		}
		s.idles(session.ID)
		s.reach(job.ID, spawner.Running)
	})
}

// TestRecallHasADeadline: a job that does not end is killed when its time is up, also when the service was killed in
// between.
func TestRecallHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, session := lending(t)
		time.Sleep(21 * time.Minute)
		r := gpuJob(true)
		r.Env = map[string]string{spawnertest.AgentEnv: spawnertest.Stubborn}
		job := s.submit(bob, r)
		s.reach(job.ID, spawner.Running)
		back := time.Now()
		s.Visit(session.ID, true)
		time.Sleep(20 * time.Second)
		s.restart()
		s.reach(job.ID, spawner.Pending)
		if took := time.Since(back); took < 25*time.Second || took > 35*time.Second {
			t.Errorf("called back in %s, and the deadline is 30 s", took)
		}
	})
}

// TestNoLineStarves: who lacks only processors is not overtaken by those of another line who came later, and who lacks
// a part holds up nobody who needs none.
func TestNoLineStarves(t *testing.T) {
	inGPUBubble(2, func(t *testing.T, s *service, g *spawnertest.GPUs) {
		s.kill()
		s.config.Capacity = map[string]spawner.Capacity{"docker": {CPUs: 4}, "local": {Count: 4}}
		s.start()
		var small []spawner.Workload
		for n := range 3 {
			small = append(small, s.reach(s.startSession(request(fmt.Sprint("user", n), "", fmt.Sprint("small", n))).ID, spawner.Running))
		}
		r := onGPU("alice", "large")
		r.Spec.Resources.CPUs = 3
		large := s.startSession(r)
		late := s.startSession(request("late", "", "late"))
		synctest.Wait()
		if q := s.Queue(late); q.Place != 1 || !strings.Contains(q.String(), "others go first") {
			t.Errorf("one CPU is free, and for it waits %q; the late one: %q", s.Queue(large), q)
		}
		if room := s.Room("", spawner.Resources{CPUs: 1, Memory: 1}, gpu.Request{}); room.Lacks == "" {
			t.Errorf("the form promises room: %+v", room)
		}
		for _, w := range small[:2] {
			if _, err := s.Stop(t.Context(), admin, w.ID); err != nil {
				t.Fatal(err)
			}
		}
		s.reach(large.ID, spawner.Running)
		if _, err := s.Stop(t.Context(), admin, small[2].ID); err != nil {
			t.Fatal(err)
		}
		s.reach(late.ID, spawner.Running)
	})(t)
}

// TestSessionsAndJobsShareThePartsFairly: a job does not overtake a session that waits for a part, nor the other way
// round.
func TestSessionsAndJobsShareThePartsFairly(t *testing.T) {
	inGPUBubble(1, func(t *testing.T, s *service, g *spawnertest.GPUs) {
		first := s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Running)
		job := s.submit(bob, gpuJob(false))
		session := s.startSession(onGPU("carol", "two"))
		if _, err := s.Stop(t.Context(), admin, first.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(job.ID, spawner.Running)
		if w, _ := s.Get(t.Context(), admin, session.ID); w.Phase != spawner.Pending {
			t.Errorf("the session is %s", w.Phase)
		}
		s.crew.Hand(job.ID).Exit(0)
		s.reach(session.ID, spawner.Running)
		if got := g.Released(); !slices.Equal(got, []string{string(first.ID), string(job.ID)}) {
			t.Errorf("released: %v", got)
		}
	})(t)
}

// TestDeadDriverKeepsNothingAlive: what is to end does so also when the driver does not answer.
func TestDeadDriverKeepsNothingAlive(t *testing.T) {
	inGPUBubble(1, func(t *testing.T, s *service, g *spawnertest.GPUs) {
		w := s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Running)
		g.Fall()
		if _, err := s.Stop(t.Context(), admin, w.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(w.ID, spawner.Stopped)
	})(t)
}

// cgroups is a GPU whose parts are held to their memory by their workload's control group.
type cgroups struct {
	*spawnertest.GPUs
	mu       sync.Mutex
	confined []string
	broken   error // what Confine answers
}

// answer has Confine answer so from now on, and gives what was confined until now.
func (c *cgroups) answer(err error) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
	return c.confined
}

func (c *cgroups) Place(r gpu.Request, held []gpu.Slice) (gpu.Slice, string) {
	s, lacks := c.GPUs.Place(r, held)
	s.Tier = gpu.Cgroup
	return s, lacks
}

func (c *cgroups) Confine(_ context.Context, _ gpu.Slice, cgroup string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confined = append(c.confined, cgroup)
	return c.broken
}

// grouped is a backend that knows control groups.
type grouped struct{ *spawnertest.Fake }

func (grouped) Cgroup(_ context.Context, id spawner.ID) (string, error) {
	return "docker/" + string(id), nil
}

// TestLimitBeforeTheApp: no app starts without the limit of its part, also when the service was killed since the
// container started, or the driver does not answer at first. A backend that cannot do so starts nothing.
func TestLimitBeforeTheApp(t *testing.T) {
	inGPUBubble(1, func(t *testing.T, s *service, g *spawnertest.GPUs) {
		mute := errors.New("the driver does not answer")
		c := &cgroups{GPUs: g, broken: mute}
		s.kill()
		s.config.GPUs, s.config.Backends = c, []spawner.Backend{grouped{s.sessions}, s.jobs}
		s.start()
		s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Start, Step: spawnertest.After, Hold: make(chan struct{})})
		w := s.startSession(onGPU("alice", "one"))
		time.Sleep(10 * time.Second)
		if confined := c.answer(mute); s.crew.Hand(w.ID) == nil || len(confined) > 0 {
			t.Fatalf("confined %q", confined)
		}
		s.restart()
		time.Sleep(10 * time.Second)
		if confined := c.answer(nil); s.crew.Hand(w.ID).Launches() > 0 || len(confined) == 0 {
			t.Errorf("%d launches, confined %q", s.crew.Hand(w.ID).Launches(), confined)
		}
		s.reach(w.ID, spawner.Running)
		job := s.submit(bob, gpuJob(false))
		if _, err := s.Stop(t.Context(), admin, w.ID); err != nil {
			t.Fatal(err)
		}
		if w := s.reach(job.ID, spawner.Stopped); !w.Outcome.Failed || !strings.Contains(w.Outcome.Reason, "cannot hold its workloads") {
			t.Errorf("%+v", w.Outcome)
		}
	})(t)
}

// refusing is a GPU whose driver refuses the service.
type refusing struct{ *spawnertest.GPUs }

func (refusing) Realise(context.Context, string, gpu.Slice) (gpu.Binding, error) {
	return gpu.Binding{}, fmt.Errorf("prepare: %w", errs.New(errs.Internal, "the service may not cut GPUs").With("run it as root"))
}

// TestWhatOnlyPeopleMendIsTold: a start does not wait for ever for what does not mend itself.
func TestWhatOnlyPeopleMendIsTold(t *testing.T) {
	inGPUBubble(1, func(t *testing.T, s *service, g *spawnertest.GPUs) {
		s.kill()
		s.config.GPUs = refusing{g}
		s.start()
		if w := s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Stopped); w.Outcome.Remedy != "run it as root" {
			t.Errorf("%+v", w.Outcome)
		}
	})(t)
}

// TestWhatIsNoMoreEndsTheWait: who waits for what the site has no more is told so, and holds up nobody.
func TestWhatIsNoMoreEndsTheWait(t *testing.T) {
	inGPUBubble(1, func(t *testing.T, s *service, g *spawnertest.GPUs) {
		s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Running)
		w := s.startSession(onGPU("bob", "two"))
		s.kill()
		s.config.GPUs = nil
		s.start()
		if w := s.reach(w.ID, spawner.Stopped); !w.Outcome.Failed || !strings.Contains(w.Outcome.Reason, "no GPU") {
			t.Errorf("%+v", w.Outcome)
		}
	})(t)
}

// TestNewStartWhileMoving: a second start, a stop and a removal that meet a workload on its way back in line win over
// it.
func TestNewStartWhileMoving(t *testing.T) {
	for name, do := range map[string]func(*service, spawner.Workload){
		"start": func(s *service, w spawner.Workload) {
			if again := s.startSession(onGPU("alice", "two")); again.ID != w.ID || s.reach(w.ID, spawner.Running).Launch != "two" {
				s.t.Errorf("%s", again.ID)
			}
		},
		"stop": func(s *service, w spawner.Workload) {
			if _, err := s.Stop(s.t.Context(), alice, w.ID); err != nil {
				s.t.Fatal(err)
			}
			if w = s.reach(w.ID, spawner.Stopped); !w.Outcome.Canceled || w.Moving {
				s.t.Errorf("%+v", w)
			}
		},
		"remove": func(s *service, w spawner.Workload) {
			if err := s.Remove(s.t.Context(), alice, w.ID); err != nil {
				s.t.Fatal(err)
			}
			s.gone(w.ID)
		},
		"restart": func(s *service, w spawner.Workload) {
			s.restart()
			s.reach(w.ID, spawner.Running)
		},
	} {
		t.Run(name, inGPUBubble(2, func(t *testing.T, s *service, g *spawnertest.GPUs) {
			s.crew.Boot(func(h *spawnertest.Hand) { h.Fault("wrong result of a kernel") })
			s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Stop, Step: spawnertest.Halfway, Times: 3})
			w := s.reach(s.startSession(onGPU("alice", "one")).ID, spawner.Stopping)
			if !w.Moving {
				t.Fatalf("%+v", w)
			}
			s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
			do(s, w)
			if leases := s.engine.Leases(); len(leases) != len(g.InUse()) {
				t.Errorf("leases %v, in use %v", leases, g.InUse())
			}
		}))
	}
}
