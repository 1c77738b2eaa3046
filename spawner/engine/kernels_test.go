package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

func kernelRequest(launch string) spawner.KernelRequest {
	return spawner.KernelRequest{Name: "python", Launch: launch, Spec: spawner.Spec{SessionSpec: spawner.SessionSpec{Image: "notebook", Interrupt: "signal"}, Argv: []string{"python", "-m", "ipykernel_launcher", "-f", "{connection_file}"},
		Resources: spawner.Resources{CPUs: 0.5, Memory: 1 << 30},
	}}
}

func (s *service) startKernel(c spawner.Caller, launch string) spawner.Workload {
	s.t.Helper()
	w, err := s.StartKernel(s.t.Context(), c, kernelRequest(launch))
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

func TestKernel(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startKernel(alice, "one")
		if again := s.startKernel(alice, "one"); again.ID != w.ID {
			t.Errorf("asked for again it is %s beside %s", again.ID, w.ID)
		}
		s.reach(w.ID, spawner.Running)
		app := s.crew.Hand(w.ID).App()
		if app.HTTP || app.Jupyter || app.Kernel == nil || app.Kernel.InterruptMode != "signal" || app.Dir != "/home/alice" || app.Argv[4] != "{connection_file}" {
			t.Errorf("the agent got %+v", app)
		}
		if got := messages(s.events(w.ID, "one")); got[0] != "Asked for a kernel" || got[len(got)-1] != "the kernel is ready (1.0 s)" {
			t.Errorf("events: %q", got)
		}
		if n := s.Stats(); n.Kernels["python"][spawner.Running] != 1 || len(n.KernelTook) != 1 || len(n.StartTook) != 0 {
			t.Errorf("in numbers: %v, %v and %v", n.Kernels, n.KernelTook, n.StartTook)
		}
		if _, err := s.Stop(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		s.gone(w.ID)
		if ids, _ := s.sessions.List(t.Context()); len(ids) > 0 || s.Stats().Use["docker"].Count != 0 {
			t.Errorf("it has left %v", ids)
		}
	})(t)
}

func TestKernelThatDies(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startKernel(alice, "one")
		s.reach(w.ID, spawner.Running)
		s.crew.Hand(w.ID).Exit(1)
		w = s.reach(w.ID, spawner.Stopped)
		if ids, _ := s.sessions.List(t.Context()); len(ids) > 0 || !w.Outcome.Failed {
			t.Errorf("it has left %v, outcome %+v", ids, w.Outcome)
		}
		time.Sleep(9 * time.Minute)
		if s.phase(w.ID) != spawner.Stopped {
			t.Error("why it ended is not known any more")
		}
		s.gone(w.ID)
	})(t)
}

func TestKernelsPerUser(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.parts.Kernels = 2
		s.restart()
		s.startKernel(alice, "one")
		s.startKernel(alice, "two")
		if _, err := s.StartKernel(t.Context(), alice, kernelRequest("three")); !errs.Is(err, errs.OverQuota) {
			t.Errorf("a third kernel: %v", err)
		}
		s.startKernel(alice, "two") // a repetition
		s.startKernel(bob, "one")
	})(t)
}

// Whoever shuts a kernel down at her limit starts the next at once, though not any number while none of them has ended.
func TestKernelsThatAreEndingDoNotCount(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.parts.Kernels = 1
		s.restart()
		w := s.startKernel(alice, "one")
		s.reach(w.ID, spawner.Running)
		heal := s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Stop, Times: spawnertest.Always, Err: errs.New(errs.Unavailable, "not now")})
		end := func(w spawner.Workload) {
			if err := s.Remove(t.Context(), alice, w.ID); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		end(w)
		second := s.startKernel(alice, "two")
		if s.phase(w.ID) != spawner.Stopping || len(s.engine.Leases()) > 2 {
			t.Errorf("meanwhile the first is %s", s.phase(w.ID))
		}
		s.reach(second.ID, spawner.Running)
		end(second)
		if _, err := s.StartKernel(t.Context(), alice, kernelRequest("three")); !errs.Is(err, errs.OverQuota) || !strings.Contains(err.Error(), "still ending") {
			t.Errorf("while two end: %v", err)
		}
		heal()
		s.gone(w.ID)
		s.gone(second.ID)
		s.startKernel(alice, "three")
	})(t)
}

func TestKernelsAreTheirOwners(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startKernel(alice, "one")
		s.reach(w.ID, spawner.Running)
		for name, c := range map[string]spawner.Caller{"bob": bob, "a hub's spawner": hub, "alice of another hub": {User: "alice", Hub: "other"}} {
			for call, err := range s.everyDoor(c, w.ID) {
				if !errs.Is(err, errs.NotFound) {
					t.Errorf("%s reaches it by %s: %v", name, call, err)
				}
			}
		}
		for name, c := range map[string]spawner.Caller{"nobody": {}, "a hub's spawner": hub, "a job": {User: "alice", Hub: "main", Workload: "j-0000000000000000"}} {
			if _, err := s.StartKernel(t.Context(), c, kernelRequest("two")); !errs.Is(err, errs.Forbidden) {
				t.Errorf("%s starts kernels: %v", name, err)
			}
		}
		r := request("alice", "", "two")
		r.Kind = spawner.Kernel
		if _, err := s.StartSession(t.Context(), hub, r); !errs.Is(err, errs.Invalid) {
			t.Errorf("a hub's spawner starts a kernel: %v", err)
		}
	})(t)
}

// A kernel has the name and the launch of a server of the Hub's by chance, or by malice.
func TestKernelIsNoServer(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		r := request("alice", "python", "one")
		server, kernel := s.startSession(r), s.startKernel(alice, "one")
		s.reach(server.ID, spawner.Running)
		s.reach(kernel.ID, spawner.Running)
		if w, err := s.Launched(t.Context(), hub, "one"); err != nil || w.ID != server.ID {
			t.Errorf("the launch is %s: %v", w.ID, err)
		}
		if list, _ := s.SessionsOf(t.Context(), alice, "alice", "python"); len(list) != 1 || list[0].ID != server.ID {
			t.Errorf("the server's sessions: %+v", list)
		}
		r.Launch = "two"
		if again := s.startSession(r); again.ID != server.ID || s.phase(kernel.ID) != spawner.Running {
			t.Errorf("the server is %s, the kernel %s", again.ID, s.phase(kernel.ID))
		}
		s.Visit(kernel.ID, true)
		time.Sleep(time.Hour)
		for range 3 {
			servers := []spawner.Server{{User: "alice", Name: "python"}}
			if _, err := s.ReconcileHub(t.Context(), spawner.Roster{Hub: "main", Asked: time.Now(), Stop: true, Servers: servers[:1]}); err != nil {
				t.Fatal(err)
			}
		}
		if active := s.LastActive("main"); slices.ContainsFunc(active, func(a spawner.ActiveSession) bool { return !a.Active.IsZero() }) {
			t.Errorf("the Hub is told of %+v", active)
		}
	})(t)
}

func TestKernelIsNoStranger(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startKernel(alice, "one")
		s.reach(w.ID, spawner.Running)
		time.Sleep(time.Hour)
		for range 3 {
			if _, err := s.ReconcileHub(t.Context(), spawner.Roster{Hub: "main", Asked: time.Now(), Stop: true}); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.phase(w.ID); got != spawner.Running {
			t.Errorf("it is %s", got)
		}
	})(t)
}

func TestKernelIsStoppedOnlyWhenIdle(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		r := kernelRequest("one")
		r.Spec.Life = spawner.Life{Idle: time.Hour, Warning: 10 * time.Minute}
		w, err := s.StartKernel(t.Context(), alice, r)
		if err != nil {
			t.Fatal(err)
		}
		s.reach(w.ID, spawner.Running)
		hand := s.crew.Hand(w.ID)
		hand.Act(control.Activity{Asked: true, Kernels: 1, Busy: 1})
		time.Sleep(5 * time.Hour)
		if got := s.phase(w.ID); got != spawner.Running || len(hand.Notices()) > 0 {
			t.Fatalf("it is %s while it computes; told %q", got, hand.Notices())
		}
		hand.Act(control.Activity{Kernels: 0, Quiet: -1}) // its agent could not ask it
		time.Sleep(5 * time.Hour)
		if got := s.phase(w.ID); got != spawner.Running {
			t.Fatalf("it is %s though it is not known what it does", got)
		}
		hand.Act(control.Activity{Asked: true, Kernels: 1, Quiet: -1})
		w = s.reach(w.ID, spawner.Stopped)
		if n := hand.Notices(); !w.Outcome.Expired || len(n) != 1 {
			t.Errorf("outcome %+v, told %q", w.Outcome, n)
		}
		time.Sleep(9 * time.Minute)
		s.gone(w.ID)
	})(t)
}

func TestKernelKilledAtEveryMoment(t *testing.T) {
	for tenth := range 16 {
		t.Run(fmt.Sprint(tenth), inBubble(func(t *testing.T, s *service) {
			s.crew.Boot(func(h *spawnertest.Hand) { time.AfterFunc(300*time.Millisecond, h.Ready) })
			w := s.startKernel(alice, "one")
			time.Sleep(time.Duration(tenth) * 100 * time.Millisecond)
			s.restart()
			s.reach(w.ID, spawner.Running)
			s.restart()
			synctest.Wait()
			if got := s.startKernel(alice, "one"); got.ID != w.ID || s.crew.Hand(w.ID).Launches() != 1 || s.sessions.Runs(w.ID) != 1 {
				t.Errorf("%s became %s, started %d times", w.ID, got.ID, s.crew.Hand(w.ID).Launches())
			}
			if err := s.Remove(t.Context(), alice, w.ID); err != nil {
				t.Fatal(err)
			}
			s.restart()
			s.gone(w.ID)
		}))
	}
}
