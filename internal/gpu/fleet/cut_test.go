package fleet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/fleet"
)

// foreign makes an instance as somebody else does.
func (s *site) foreign(i int, profile string, start int) gpu.Instance {
	s.t.Helper()
	dev := s.state(i).Device
	p, _ := dev.Profile(profile)
	in, err := s.driver.CreateInstance(context.Background(), s.uuids[i], profile, gpu.Placement{Start: start, Size: p.Placements[0].Size})
	if err != nil {
		s.t.Fatal(err)
	}
	return in
}

func TestForeignInstances(t *testing.T) {
	s := newSite(t, []string{"H200/mig"}, mig(), nil)
	slice, _ := s.lease("a", ask(t, "4g.71gb"))
	in := s.foreign(0, "2g.35gb", 2)
	if _, err := s.fleet.Realise(t.Context(), "a", slice); !errors.Is(err, gpu.ErrBadPlace) {
		t.Fatalf("somebody else was quicker: %v", err)
	}
	s.strike("a")
	if _, lacks := s.lease("a", ask(t, "4g.71gb")); lacks == "" {
		t.Error("the place is offered still")
	}
	s.have("b", "3g.71gb")
	s.have("c", "2g.35gb")
	s.sound(0, in)
	if g := s.state(0); g.Condition != gpu.Ready || !strings.Contains(g.Why, "2g.35gb at 2") || len(quarantined(g)) != 0 {
		t.Errorf("%s: %s, %v", g.Condition, g.Why, g.Slices)
	}
	whole := newSite(t, []string{"H200/mig"}, mig(), nil)
	whole.foreign(0, "7g.141gb", 0)
	whole.refresh()
	if g := whole.state(0); g.Condition != gpu.Occupied {
		t.Errorf("nothing is left of it: %s", g.Condition)
	}
}

func TestAdopt(t *testing.T) {
	s := newSite(t, []string{"H200/mig"}, []fleet.Rule{{Match: "*", Mode: gpu.MIG, Adopt: true}}, nil)
	in := s.foreign(0, "3g.71gb", 4)
	s.refresh()
	if _, lacks := s.lease("a", ask(t, "1g.18gb")); lacks == "" {
		t.Error("something is to be cut from a GPU that others cut")
	}
	a := s.have("a", "3g.71gb")
	if g := s.state(0); len(g.Slices) != 1 || g.Slices[0].UUID != in.UUID || g.Slices[0].GI == nil || *g.Slices[0].GI != in.GI {
		t.Errorf("slices: %+v", g.Slices)
	}
	s.release("a", a)
	s.refresh()
	if !has(s.instances(0), "3g.71gb", in.Placement) {
		t.Error("somebody else's instance is gone")
	}
	if err := s.driver.DestroyInstance(t.Context(), s.uuids[0], in.GI); err != nil {
		t.Fatal(err)
	}
	b, lacks := s.lease("b", ask(t, "3g.71gb"))
	if lacks != "" {
		t.Fatal(lacks)
	}
	if _, err := s.fleet.Realise(t.Context(), "b", b); !errors.Is(err, gpu.ErrBadPlace) || len(s.instances(0)) != 0 {
		t.Errorf("it has been taken away meanwhile: %v, %v", err, s.instances(0))
	}
}

func TestLayout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rule := fleet.Rule{Match: "*", Mode: gpu.MIG, Layout: []string{"3g.71gb", "2g", "1g.18gb", "1g.18gb"}}
		s := newSite(t, []string{"H200/mig"}, mig(), nil)
		held := s.have("old", "1g.18gb") // of the time when the GPU was cut as needed
		s.release("gone", s.have("gone", "2g.35gb"))
		s.cfg.Rules = []fleet.Rule{rule}
		s.restart()
		s.run()
		later(time.Minute)
		if !has(s.instances(0), held.Profile, held.Placement) {
			t.Fatal("what is held is destroyed for the layout")
		}
		s.release("old", held)
		later(time.Minute)
		want := []string{"1g.18gb", "1g.18gb", "2g.35gb", "3g.71gb"}
		if got := profilesOf(s.instances(0)); !slices.Equal(got, want) {
			t.Fatalf("the layout is %v, want %v: %s", got, want, dump(s.fleet.Inventory().GPUs))
		}
		before := s.instances(0)
		for _, r := range []string{"1g.18gb", "1g.18gb", "3g.71gb"} {
			s.have("w"+r+itoa(len(s.held())), r)
		}
		if _, lacks := s.lease("z", ask(t, "1g.18gb")); !strings.Contains(lacks, "0 of 2 free") {
			t.Errorf("a third of two: %q", lacks)
		}
		for _, l := range s.held() {
			s.release(l.Holder, l.Slice)
		}
		later(time.Minute)
		if after := s.instances(0); !slices.EqualFunc(before, after, func(a, b gpu.Instance) bool { return a.GI == b.GI && a.Profile == b.Profile }) {
			t.Errorf("the layout has changed: %v, %v", before, after)
		}
		if err := s.driver.Reset(s.uuids[0]); err != nil {
			t.Fatal(err)
		}
		later(time.Minute)
		if got := profilesOf(s.instances(0)); !slices.Equal(got, want) {
			t.Errorf("after a reset the layout is %v", got)
		}
	})
}

func profilesOf(all []gpu.Instance) (names []string) {
	for _, in := range all {
		names = append(names, in.Profile)
	}
	slices.Sort(names)
	return names
}

func TestImpossibleLayout(t *testing.T) {
	for layout, words := range map[string]string{"4g 4g": "do not fit together", "5g.99gb": "no profile of NVIDIA H200"} {
		s := newSite(t, []string{"H200/mig"}, []fleet.Rule{{Match: "*", Mode: gpu.MIG, Layout: strings.Fields(layout)}}, nil)
		if g := s.state(0); g.Condition != gpu.Unset || !strings.Contains(g.Why, words) {
			t.Errorf("%s: %s %q", layout, g.Condition, g.Why)
		}
	}
}

// TestCondemn: a place that has failed a self-test is not offered for a while, and its instance is made anew then.
func TestCondemn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig"}, mig(), nil)
		a := s.have("a", "7g.141gb")
		later(time.Minute)
		s.fleet.Condemn(a, "the kernel's result is wrong")
		s.release("a", a)
		if _, lacks := s.lease("b", ask(t, "7g.141gb")); lacks == "" {
			t.Fatal("it is offered again")
		}
		if q := quarantined(s.state(0)); len(q) != 1 || !strings.Contains(q[0].Why, "result is wrong") {
			t.Errorf("%v", q)
		}
		later(31 * time.Minute)
		s.refresh()
		destroyed := 0
		s.cfg.Driver = &watcher{Driver: s.driver, destroyed: &destroyed}
		s.restart()
		s.have("b", "7g.141gb")
		if destroyed != 1 {
			t.Errorf("%d instances were destroyed before it was used again", destroyed)
		}
	})
}

type watcher struct {
	gpu.Driver
	destroyed *int
}

func (w *watcher) DestroyInstance(ctx context.Context, uuid string, gi int) error {
	*w.destroyed++
	return w.Driver.DestroyInstance(ctx, uuid, gi)
}

// TestLent: who has borrowed a slice may be on it, also when the lender has gone.
func TestLent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig"}, mig(), nil)
		a := s.have("session", "1g.18gb")
		s.own(100, "job")
		occupy(t, s, fakegpu.Process{PID: 100, GI: s.instances(0)[0].GI})
		for _, l := range []gpu.Lease{{Holder: "session", Lent: "job", Slice: a}, {Holder: "job", As: "session", Slice: a}} {
			s.mu.Lock()
			s.leases = []gpu.Lease{l}
			s.mu.Unlock()
			s.refresh()
			if _, err := s.fleet.Realise(t.Context(), "session", a); err != nil {
				t.Errorf("%+v: %v", l, err)
			}
			if free, _ := s.fleet.Count(ask(t, "1g.18gb"), []gpu.Slice{a}); free != 6 {
				t.Errorf("%+v: %d free", l, free)
			}
		}
	})
}

func TestIntruderOnReadyInstance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig"}, mig(), nil)
		a := s.have("a", "1g.18gb")
		s.release("a", a)
		occupy(t, s, fakegpu.Process{PID: 200, GI: s.instances(0)[0].GI})
		s.refresh()
		if g := s.state(0); len(g.Slices) != 1 || !strings.Contains(g.Slices[0].Why, "process 200") {
			t.Errorf("slices %+v", g.Slices)
		}
		if b := s.have("b", "1g.18gb"); b.Same(a) {
			t.Error("an instance that somebody else uses is leased")
		}
	})
}

// wayward makes instances elsewhere than it is told to.
type wayward struct{ gpu.Driver }

func (w wayward) CreateInstance(ctx context.Context, uuid, profile string, _ gpu.Placement) (gpu.Instance, error) {
	return w.Driver.CreateInstance(ctx, uuid, profile, gpu.Placement{Start: 0, Size: 1})
}

func TestInstanceAstray(t *testing.T) {
	s := newSite(t, []string{"H200/mig"}, mig(), func(c *fleet.Config) { c.Driver = wayward{c.Driver} })
	slice := gpu.Slice{GPU: s.uuids[0], Mode: gpu.MIG, Name: "1g.18gb", Profile: "1g.18gb", Placement: gpu.Placement{Start: 3, Size: 1}}
	if _, err := s.fleet.Realise(t.Context(), "a", slice); !errors.Is(err, gpu.ErrBadPlace) || len(s.instances(0)) != 0 {
		t.Errorf("%v, %v", err, s.instances(0))
	}
	s.sound(0)
	if q := quarantined(s.state(0)); len(q) != 1 || q[0].Slice.Placement.Start != 3 {
		t.Errorf("quarantined: %v", q)
	}
}

// TestRefusals: what the driver says no to is told apart from what nobody can know.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		fault error
		bad   bool
		words string
	}{
		"denied":        {gpu.ErrDenied, false, "run it as root"},
		"mode":          {gpu.ErrNotSupported, true, "mode"},
		"lost":          {gpu.ErrLost, true, "lost"},
		"no room there": {gpu.ErrNoRoom, true, "no room"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, []string{"H200/mig"}, mig(), nil)
				slice, _ := s.lease("a", ask(t, "1g.18gb"))
				s.driver.Fail(s.uuids[0], fakegpu.Fault{On: fakegpu.OpCreate, Err: c.fault})
				_, err := s.fleet.Realise(t.Context(), "a", slice)
				if err == nil || errors.Is(err, gpu.ErrBadPlace) != c.bad || !strings.Contains(err.Error(), c.words) {
					t.Errorf("%v", err)
				}
				s.driver.Heal()
				later(time.Hour)
				s.refresh()
				if _, err := s.fleet.Realise(t.Context(), "a", slice); err != nil {
					t.Errorf("when all is well: %v", err)
				}
			})
		})
	}
}

// TestModeChangedOutside: nobody is given a GPU that is not what it was.
func TestModeChangedOutside(t *testing.T) {
	s := newSite(t, []string{"H200/mig", "H200"}, []fleet.Rule{{Match: "0", Mode: gpu.MIG}}, nil)
	for i, request := range []string{"1g.18gb", "whole"} {
		slice, lacks := s.lease(request, ask(t, request))
		if lacks != "" {
			t.Fatal(lacks)
		}
		if err := s.driver.SetMIG(t.Context(), s.uuids[i], i == 1); err != nil {
			t.Fatal(err)
		}
		if _, err := s.fleet.Realise(t.Context(), request, slice); !errors.Is(err, gpu.ErrBadPlace) {
			t.Errorf("%s: %v", request, err)
		}
		if g := s.state(i); g.Condition != gpu.Unset {
			t.Errorf("%s: %s", request, g.Condition)
		}
	}
}

// TestHeldPlacesAreSafe: whatever a caller asks to make real, what others hold is not touched.
func TestHeldPlacesAreSafe(t *testing.T) {
	s := newSite(t, []string{"H200/mig"}, mig(), nil)
	a := s.have("a", "3g.71gb")
	over := a
	over.Profile, over.Name, over.Placement = "7g.141gb", "7g.141gb", gpu.Placement{Start: 0, Size: 8}
	for holder, slice := range map[string]gpu.Slice{"b": over, "c": a, "d": {GPU: a.GPU, Mode: gpu.Whole}} {
		if _, err := s.fleet.Realise(t.Context(), holder, slice); !errors.Is(err, gpu.ErrBadPlace) {
			t.Errorf("%s: %v", holder, err)
		}
	}
	s.sound(0)
}

func TestCondemnedPlaceIsRefused(t *testing.T) {
	s := newSite(t, []string{"H200/mig"}, mig(), nil)
	slice, _ := s.lease("a", ask(t, "1g.18gb"))
	s.fleet.Condemn(slice, "it has failed")
	if _, err := s.fleet.Realise(t.Context(), "a", slice); !errors.Is(err, gpu.ErrBadPlace) || !strings.Contains(err.Error(), "set aside until") || strings.Contains(err.Error(), "it has failed") {
		t.Errorf("%v", err)
	}
}

// TestFullDisk: what cannot be put down is not made.
func TestFullDisk(t *testing.T) {
	s := newSite(t, []string{"H200/mig"}, mig(), nil)
	slice, _ := s.lease("a", ask(t, "1g.18gb"))
	full := errors.New("the disk is full")
	s.store.step = func(string) error { return full }
	if _, err := s.fleet.Realise(t.Context(), "a", slice); !errors.Is(err, full) || errors.Is(err, gpu.ErrBadPlace) || len(s.instances(0)) != 0 {
		t.Errorf("%v, %v", err, s.instances(0))
	}
	s.fleet.Condemn(slice, "it has failed")
	if _, lacks := s.lease("b", ask(t, "7g.141gb")); lacks == "" {
		t.Error("a quarantine that cannot be saved does not hold")
	}
}
