package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/catalog"
	"slipway/spawner/spawnertest"
)

func warmRequest(launch string) spawner.KernelRequest {
	r := kernelRequest(launch)
	r.Warm, r.ID = 1, "id-"+launch
	r.Spec.Env = map[string]string{"SITE": "x", "KERNEL_LAUNCH": launch}
	return r
}

func (s *service) warm(c spawner.Caller, launch string) spawner.Workload {
	s.t.Helper()
	w, err := s.StartKernel(s.t.Context(), c, warmRequest(launch))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.reach(w.ID, spawner.Running)
}

// standbys returns those that are ready, as an administrator sees them.
func (s *service) standbys() (list []spawner.Workload) {
	s.t.Helper()
	all, err := s.List(s.t.Context(), admin)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, w := range all {
		if w.Standby != "" && w.Want == spawner.WantRunning {
			list = append(list, w)
		}
	}
	return list
}

// settles waits until all is done that is to be done soon.
func (s *service) settles() {
	time.Sleep(20 * time.Second)
	synctest.Wait()
}

func TestNextKernelStandsBy(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		first := s.warm(alice, "one")
		s.settles()
		list := s.standbys()
		if len(list) != 1 || list[0].Phase != spawner.Starting || list[0].Owner != "alice" || list[0].Spec.Env["KERNEL_LAUNCH"] != "" || list[0].Kernel != "" {
			t.Fatalf("standbys: %+v", list)
		}
		if app := s.crew.Hand(list[0].ID).App(); !app.Standby || app.Env["SITE"] != "x" {
			t.Errorf("its agent was told %+v", app)
		}
		if why, n := s.Detail(list[0]), s.Stats().Kernels["python"]; why != "stands by to be alice's next kernel" || n[spawner.StandsBy] != 1 || n[spawner.Starting] != 0 {
			t.Errorf("administrators are told %q, in numbers %v", why, n)
		}
		if mine := s.Kernels(alice); len(mine) != 1 {
			t.Errorf("alice has %d kernels", len(mine))
		}
		if mine, _ := s.List(t.Context(), alice); len(mine) != 1 || mine[0].ID != first.ID {
			t.Errorf("alice is shown %+v", mine)
		}
		before := time.Now()
		second := s.warm(alice, "two")
		if second.ID != list[0].ID || second.Standby != "" || second.Kernel != "id-two" || time.Since(before) > time.Second {
			t.Errorf("the next is %+v after %v", second, time.Since(before))
		}
		if app := s.crew.Hand(second.ID).App(); app.Standby || app.Launch != second.Launch || app.Env["KERNEL_LAUNCH"] != "two" {
			t.Errorf("its agent got %+v", app)
		}
		if again, err := s.StartKernel(t.Context(), alice, warmRequest("two")); err != nil || again.ID != second.ID {
			t.Errorf("asked for again it is %s: %v", again.ID, err)
		}
		s.settles()
		if list := s.standbys(); len(list) != 1 || list[0].ID == second.ID {
			t.Errorf("then %+v stand by", list)
		}
	})(t)
}

// A standby is nobody else's, nor for what is started in another way.
func TestStandbyIsForItsOwnersNextAlone(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.warm(alice, "one")
		s.settles()
		spare := s.standbys()[0]
		if w := s.warm(bob, "bobs"); w.ID == spare.ID {
			t.Error("bob has alice's")
		}
		r := warmRequest("other")
		r.Spec.Image = "other"
		if w, err := s.StartKernel(t.Context(), alice, r); err != nil || w.ID == spare.ID {
			t.Errorf("another image: %s, %v", w.ID, err)
		}
		s.gone(spare.ID)
		r = warmRequest("none")
		r.Name = "another"
		if w, err := s.StartKernel(t.Context(), alice, r); err != nil || w.Launch != "none" {
			t.Errorf("another kernelspec: %+v, %v", w, err)
		}
	})(t)
}

func TestStandbyOfAnotherAccountIsNotTaken(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		var groups atomic.Pointer[[]spawner.Group]
		groups.Store(new([]spawner.Group))
		usual := s.config.Account
		s.config.Account = func(ctx context.Context, hub string, u spawner.User) (spawner.Account, error) {
			a, err := usual(ctx, hub, u)
			a.Groups = *groups.Load()
			return a, err
		}
		s.restart()
		s.warm(alice, "one")
		s.settles()
		spare := s.standbys()[0]
		groups.Store(&[]spawner.Group{{ID: 4242, Name: "new"}})
		if w := s.warm(alice, "two"); w.ID == spare.ID || len(w.Account.Groups) != 1 {
			t.Errorf("%+v", w)
		}
		s.gone(spare.ID)
	})(t)
}

// One whose owner's rights were withdrawn ends, and no other is made.
func TestStandbyOfWhoMayNotHaveItAnyMore(t *testing.T) {
	for name, withdraw := range map[string]func(open, account *atomic.Pointer[errs.Error]){
		"the profile is closed to her": func(open, _ *atomic.Pointer[errs.Error]) { open.Store(errs.New(errs.Forbidden, "no member")) },
		"she has no account":           func(_, account *atomic.Pointer[errs.Error]) { account.Store(errs.New(errs.Forbidden, "no account")) },
	} {
		t.Run(name, inBubble(func(t *testing.T, s *service) {
			var closed, gone atomic.Pointer[errs.Error]
			usual := s.config.Account
			s.config.Account = func(ctx context.Context, hub string, u spawner.User) (spawner.Account, error) {
				if err := gone.Load(); err != nil {
					return spawner.Account{}, err
				}
				return usual(ctx, hub, u)
			}
			s.parts.Catalogue, s.parts.Member = limited(), func(string, spawner.User, catalog.Profile) (bool, error) {
				err := closed.Load()
				if err == nil || err.Kind == errs.Forbidden {
					return err == nil, nil
				}
				return false, err
			}
			s.restart()
			r := warmRequest("one")
			r.Spec.Profile = "own"
			if _, err := s.StartKernel(t.Context(), alice, r); err != nil {
				t.Fatal(err)
			}
			s.settles()
			spare := s.standbys()
			if len(spare) != 1 {
				t.Fatalf("standbys: %+v", spare)
			}
			unknown := errs.New(errs.Unavailable, "nobody knows")
			closed.Store(unknown)
			gone.Store(unknown)
			s.settles()
			if list := s.standbys(); len(list) != 1 || list[0].ID != spare[0].ID {
				t.Errorf("while it is not known: %+v", list)
			}
			closed.Store(nil)
			gone.Store(nil)
			withdraw(&closed, &gone)
			s.gone(spare[0].ID)
			s.settles()
			if list := s.standbys(); len(list) > 0 {
				t.Errorf("then %+v stand by", list)
			}
		}))
	}
}

func TestStandbyGivesWay(t *testing.T) {
	inGPUBubble(2, func(t *testing.T, s *service, _ *spawnertest.GPUs) {
		kernel := warmRequest("one")
		kernel.Spec.GPU = part()
		w, err := s.StartKernel(t.Context(), alice, kernel)
		if err != nil {
			t.Fatal(err)
		}
		s.reach(w.ID, spawner.Running)
		s.settles()
		spare := s.standbys()
		if len(spare) != 1 || spare[0].Slice == nil || len(s.engine.Leases()) != 2 {
			t.Fatalf("%+v, leases %v", spare, s.engine.Leases())
		}
		before := time.Now()
		lab := s.reach(s.startSession(onGPU("bob", "lab")).ID, spawner.Running)
		if took := time.Since(before); took > 15*time.Second || lab.Slice.Placement != spare[0].Slice.Placement {
			t.Errorf("bob got %v after %v", lab.Slice, took)
		}
		s.settles()
		if list := s.standbys(); len(list) > 0 {
			t.Errorf("though nothing is free, %+v stand by", list)
		}
	})(t)
}

func TestStandbyNobodyTakes(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.warm(alice, "one")
		s.settles()
		spare := s.standbys()[0]
		time.Sleep(25 * time.Minute)
		if list := s.standbys(); len(list) != 1 || list[0].ID != spare.ID {
			t.Errorf("after 25 min: %+v", list)
		}
		time.Sleep(6 * time.Minute)
		s.gone(spare.ID)
		if list := s.standbys(); len(list) > 0 {
			t.Errorf("after 31 min: %+v", list)
		}
	})(t)
}

// A standby outlives the service, and one that is claimed at any instant of a restart is a kernel once.
func TestStandbyOutlivesTheService(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.warm(alice, "one")
		s.settles()
		spare := s.standbys()[0]
		s.restart()
		s.settles()
		w, err := s.StartKernel(t.Context(), alice, warmRequest("two"))
		if err != nil || w.ID != spare.ID {
			t.Fatalf("%s: %v", w.ID, err)
		}
		s.restart()
		if w, err = s.StartKernel(t.Context(), alice, warmRequest("two")); err != nil || w.ID != spare.ID {
			t.Errorf("asked for again: %s, %v", w.ID, err)
		}
		s.reach(w.ID, spawner.Running)
		if app := s.crew.Hand(w.ID).App(); app.Env["KERNEL_LAUNCH"] != "two" {
			t.Errorf("its agent got %+v", app)
		}
	})(t)
}

// One that has died without being seen is started like any other kernel.
func TestStandbyThatDied(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.warm(alice, "one")
		s.settles()
		spare := s.standbys()[0]
		if err := s.sessions.Stop(t.Context(), spare.ID, 0); err != nil {
			t.Fatal(err)
		}
		if w := s.warm(alice, "two"); w.Outcome != nil {
			t.Errorf("%+v", w)
		}
	})(t)
}

// Where they cannot be started they are tried less and less often, and kernels start as ever.
func TestStandbysThatFail(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.warm(alice, "one")
		s.settles()
		heal := s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Start, Times: spawnertest.Always, Err: errs.New(errs.Invalid, "no such image")})
		before := len(s.sessions.Calls())
		if err := s.Remove(t.Context(), admin, s.standbys()[0].ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		starts := 0
		for _, c := range s.sessions.Calls()[before:] {
			if c.Op == spawnertest.Start {
				starts++
			}
		}
		if starts < 2 || starts > 5 {
			t.Errorf("%d starts in ten minutes", starts)
		}
		heal()
		s.warm(alice, "two")
	})(t)
}
