package engine_test

import (
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// own is one of the kernelspecs that an entry of the site's stands for.
func own(launch, name string) spawner.KernelRequest {
	r := warmRequest(launch)
	r.Name, r.Entry = name, "own"
	return r
}

// kernel starts one that may have a standby, and waits until it runs.
func (s *service) kernel(c spawner.Caller, r spawner.KernelRequest) spawner.Workload {
	s.t.Helper()
	w, err := s.StartKernel(s.t.Context(), c, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.reach(w.ID, spawner.Running)
}

func onPart(r spawner.KernelRequest) spawner.KernelRequest {
	r.Spec.GPU = part()
	return r
}

// However many kernelspecs an entry stands for, so many stand by in all, and of a user's the last word counts.
func TestStandbysOfAnEntry(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kernel(alice, own("one", "own.ana.v1"))
		s.settles()
		s.kernel(alice, own("two", "own.ana.v2"))
		s.settles()
		s.settles()
		if list := s.standbys(); len(list) != 1 || list[0].Standby != "own.ana.v2" {
			t.Errorf("alice's: %+v", list)
		}
		s.kernel(bob, own("three", "own.bobs.v1"))
		s.settles()
		if list, n := s.standbys(), s.StandbysOf()["own"]; len(list) != 1 || list[0].Owner != "alice" || n.Ready != 1 || n.Lacking == 0 || !strings.Contains(n.Why, "as many as there may be") {
			t.Errorf("at once %+v, %+v", list, n)
		}
		<-time.After(6 * time.Minute)
		s.settles()
		if list := s.standbys(); len(list) != 1 || list[0].Owner != "bob" {
			t.Errorf("after a while %+v", list)
		}
		if n := s.Stats(); len(n.Kernels) != 1 || n.Kernels["own"][spawner.Running] != 3 || n.Kernels["own"][spawner.StandsBy] != 1 {
			t.Errorf("in numbers: %v", n.Kernels)
		}
	})(t)
}

// Who waits ends no more of them than it takes, the oldest first, and none that holds nothing of what is wanted.
func TestFewStandbysGiveWay(t *testing.T) {
	inGPUBubble(4, func(t *testing.T, s *service, _ *spawnertest.GPUs) {
		s.kernel(bob, own("bobs", "own.bobs.v1")) // on no GPU
		s.settles()
		gpu := func(launch string) spawner.KernelRequest {
			r := onPart(warmRequest(launch))
			r.Warm = 2
			return r
		}
		s.kernel(alice, gpu("one"))
		s.settles()
		s.kernel(bob, gpu("two"))
		s.settles()
		if n := len(s.standbys()); n != 3 || len(s.engine.Leases()) != 4 {
			t.Fatalf("%d standbys, leases %v", n, s.engine.Leases())
		}
		if room := s.Room("", spawner.Resources{}, part()); room.Free != 2 || room.Lacks != "" {
			t.Errorf("what they hold is not free for whoever asks: %+v", room)
		}
		s.reach(s.startSession(onGPU("carol", "lab")).ID, spawner.Running)
		var left []string
		for _, w := range s.standbys() {
			left = append(left, string(w.Owner)+" "+w.Standby)
		}
		if len(left) != 2 || !strings.Contains(strings.Join(left, ","), "bob own.bobs.v1") || !strings.Contains(strings.Join(left, ","), "bob python") {
			t.Errorf("left are %q", left)
		}
	})(t)
}

// One is made of what those who wait cannot use, and of nothing else.
func TestStandbyWhileOthersWait(t *testing.T) {
	inGPUBubble(2, func(t *testing.T, s *service, _ *spawnertest.GPUs) {
		s.reach(s.startSession(onGPU("carol", "one")).ID, spawner.Running)
		second := s.startSession(onGPU("dave", "two"))
		s.reach(second.ID, spawner.Running)
		s.startSession(onGPU("eve", "three")) // waits for a part
		s.kernel(bob, own("bobs", "own.bobs.v1"))
		s.settles()
		if list := s.standbys(); len(list) != 1 || list[0].Owner != "bob" {
			t.Fatalf("without a GPU: %+v", list)
		}
		w, err := s.StartKernel(t.Context(), alice, onPart(warmRequest("gpu")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stop(t.Context(), hub, second.ID); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if n := len(s.standbys()); n != 1 || s.phase(w.ID) != spawner.Pending {
			t.Errorf("%d standbys, alice's kernel is %s", n, s.phase(w.ID))
		}
	})(t)
}

// Why none is made is known, and how many have failed.
func TestWhyNoStandby(t *testing.T) {
	inGPUBubble(1, func(t *testing.T, s *service, _ *spawnertest.GPUs) {
		s.kernel(alice, onPart(own("one", "own.ana.v1")))
		s.settles()
		if n := s.StandbysOf()["own"]; n.Ready != 0 || n.Lacking != 1 || !strings.Contains(n.Why, "there is no room: ") {
			t.Errorf("%+v", n)
		}
		heal := s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Start, Times: spawnertest.Always, Err: errs.New(errs.Invalid, "no such image")})
		w, err := s.StartKernel(t.Context(), alice, own("two", "own.ana.v2"))
		if err != nil {
			t.Fatal(err)
		}
		s.reach(w.ID, spawner.Stopped)
		if n := s.Stats().KernelsFailed["own"]; n[spawner.CauseStart] != 1 {
			t.Errorf("failed: %v", n)
		}
		heal()
		s.kernel(alice, own("three", "own.ana.v2"))
		s.settles()
		if n := s.StandbysOf()["own"]; n.Ready != 1 {
			t.Errorf("then %+v", n)
		}
	})(t)
}
