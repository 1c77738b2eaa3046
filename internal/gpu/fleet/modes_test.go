package fleet_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fleet"
	"slipway/internal/gpu/mps"
	"slipway/internal/gpu/simulated"
)

func TestRules(t *testing.T) {
	s := newSite(t, []string{"H200/mig", "H100-80", "A100-40", "L40S", "H200"}, []fleet.Rule{
		{Match: "0", Mode: gpu.MIG}, {Match: "h100", Mode: gpu.Shared}, {Match: "A100", Mode: gpu.Whole, Drain: true},
		{Match: "L40S", Mode: gpu.MIG}, {Match: "H200", Mode: gpu.MIG},
	}, nil)
	want := []struct {
		mode      gpu.Mode
		tier      gpu.Tier
		condition gpu.Condition
		why       string
	}{
		{gpu.MIG, gpu.Hardware, gpu.Ready, ""},
		{gpu.Shared, gpu.None, gpu.Ready, ""},
		{gpu.Whole, gpu.Hardware, gpu.Drained, "administrator"},
		{gpu.MIG, gpu.Hardware, gpu.Unset, "set another mode"},
		{gpu.MIG, gpu.Hardware, gpu.Unset, "gpu.switch_mig"},
	}
	for i, w := range want {
		if g := s.state(i); g.Mode != w.mode || g.Tier != w.tier || g.Condition != w.condition || !strings.Contains(g.Why, w.why) {
			t.Errorf("GPU %d is %s, %s, %s: %q", i, g.Mode, g.Tier, g.Condition, g.Why)
		}
	}
	if why := s.fleet.Never(gpu.Request{Mode: gpu.MIG, Profile: "1g", Model: "L40S"}); !strings.Contains(why, "GPU 3 is not set up") {
		t.Errorf("a slice of a GPU that cannot be cut: %q", why)
	}
	if why := s.fleet.Never(ask(t, "whole")); why != "" {
		t.Errorf("a GPU that is only taken out: %q", why)
	}
	if _, lacks := s.lease("a", ask(t, "whole")); !strings.Contains(lacks, "GPU 2 is out of service") {
		t.Errorf("lacks %q", lacks)
	}
	if s := newSite(t, []string{"H200"}, nil, nil); s.state(0).Mode != gpu.Whole {
		t.Error("a GPU without a rule is not given out whole")
	}
}

func TestWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200"}, nil, nil)
		s.run()
		a := s.have("a", "whole")
		if _, lacks := s.lease("b", ask(t, "whole")); lacks == "" {
			t.Fatal("a GPU is leased twice")
		}
		s.own(100, "a")
		occupy(t, s, simulated.Process{PID: 100, Memory: 1 << 30})
		later(20 * time.Second)
		if g := s.state(0); g.Condition != gpu.Ready || len(g.Slices) != 1 {
			t.Errorf("with its own workload on it: %s %s", g.Condition, g.Why)
		}
		if _, err := s.fleet.Realise(t.Context(), "a", a); err != nil {
			t.Errorf("again, with its own process on it: %v", err)
		}
		s.release("a", a)
		later(time.Second)
		if _, lacks := s.lease("b", ask(t, "whole")); !strings.Contains(lacks, "is used from outside") {
			t.Errorf("a process of a workload that has ended is on it: %q", lacks)
		}
		if g := s.state(0); g.Condition != gpu.Occupied || !strings.Contains(g.Why, "process 100 (?) of a") {
			t.Errorf("%s %s", g.Condition, g.Why)
		}
		s.driver.Leave(100)
		later(3 * time.Second)
		b := s.have("b", "whole")
		s.release("b", b)
		later(time.Second)
		occupy(t, s, simulated.Process{PID: 200, Memory: 1 << 30})
		if c, lacks := s.lease("c", ask(t, "whole")); lacks == "" {
			_, err := s.fleet.Realise(t.Context(), "c", c)
			if !errors.Is(err, gpu.ErrBadPlace) || !strings.Contains(err.Error(), "process 200") {
				t.Errorf("somebody else has just come: %v", err)
			}
			s.strike("c")
		}
		if _, lacks := s.lease("c", ask(t, "whole")); lacks == "" {
			t.Error("a GPU that somebody else uses is leased")
		}
		s.driver.Leave(200)
		later(20 * time.Second)
		s.have("c", "whole")
	})
}

func occupy(t *testing.T, s *site, p simulated.Process) {
	t.Helper()
	if err := s.driver.Occupy(s.uuids[0], p); err != nil {
		t.Fatal(err)
	}
}

// TestLeftoverOnInstance: the place is not used while a process of a workload that has ended is on it.
func TestLeftoverOnInstance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig"}, mig(), nil)
		a := s.have("a", "1g.18gb")
		s.own(100, "a")
		occupy(t, s, simulated.Process{PID: 100, GI: s.instances(0)[0].GI, Memory: 1 << 20})
		s.strike("a")
		b, lacks := s.lease("b", ask(t, "1g.18gb"))
		if lacks != "" || !b.Same(a) {
			t.Fatalf("%v, %q", b, lacks)
		}
		if _, err := s.fleet.Realise(t.Context(), "b", b); !errors.Is(err, gpu.ErrBadPlace) || !strings.Contains(err.Error(), "process 100 (?) of a") {
			t.Fatalf("a place that is still used: %v", err)
		}
		s.strike("b")
		if b := s.have("b", "1g.18gb"); b.Same(a) {
			t.Error("it is leased again")
		}
		s.run()
		s.driver.Leave(100)
		calls := s.changes()
		later(2 * time.Second)
		if free, most := s.fleet.Count(ask(t, "1g.18gb"), []gpu.Slice{s.held()[0].Slice}); free != 6 || most != 7 || s.changes() == calls {
			t.Errorf("after it has left: %d of %d, %d calls", free, most, s.changes()-calls)
		}
	})
}

func TestSwitchMIG(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200"}, nil, func(c *fleet.Config) { c.SwitchMIG = true })
		whole := s.have("a", "whole")
		s.cfg.Rules = mig()
		s.restart()
		s.run()
		later(time.Minute)
		if s.state(0).Device.MIGEnabled {
			t.Fatal("a GPU that is held has been switched")
		}
		if why := s.fleet.Never(ask(t, "1g.18gb")); why != "" {
			t.Errorf("it will be switched: %s", why)
		}
		if _, lacks := s.lease("b", ask(t, "1g.18gb")); !strings.Contains(lacks, "cannot be used now") {
			t.Errorf("lacks %q", lacks)
		}
		occupy(t, s, simulated.Process{PID: 200})
		s.release("a", whole)
		later(2 * time.Minute)
		if s.state(0).Device.MIGEnabled {
			t.Fatal("a GPU that somebody else uses has been switched")
		}
		s.driver.Leave(200)
		later(2 * time.Minute)
		s.release("b", s.have("b", "1g.18gb"))
	})
}

func TestSwitchMIGOff(t *testing.T) {
	for name, foreign := range map[string]bool{"own": false, "foreign": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, []string{"H200/mig"}, mig(), func(c *fleet.Config) { c.SwitchMIG = true })
				s.release("a", s.have("a", "1g.18gb"))
				if foreign {
					s.foreign(0, "1g.18gb", 0)
				}
				s.cfg.Rules = nil
				s.restart()
				s.run()
				later(time.Minute)
				if g := s.state(0); g.Device.MIGEnabled != foreign || (g.Condition == gpu.Unset) != foreign {
					t.Errorf("MIG is on: %v, %s: %s", g.Device.MIGEnabled, g.Condition, g.Why)
				}
			})
		})
	}
}

// TestNoSwitch: without permission, and where it takes a reset, nothing is switched.
func TestNoSwitch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"A100-40"}, mig(), func(c *fleet.Config) { c.SwitchMIG = true })
		s.run()
		later(time.Hour)
		if g := s.state(0); g.Condition != gpu.Unset || !strings.Contains(g.Why, "nvidia-smi -r") {
			t.Errorf("%s: %s", g.Condition, g.Why)
		}
	})
}

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

// daemons stands for MPS.
type daemons struct {
	ability mps.Ability
	shares  map[string]bool
	ended   []int
	state   mps.State
	refuse  error
}

func (d *daemons) Probe(context.Context) (mps.Ability, error) { return d.ability, nil }
func (d *daemons) Share(_ context.Context, _, holder string, _, _ int, _ int64) (mps.Share, error) {
	if d.refuse != nil {
		return mps.Share{}, d.refuse
	}
	d.shares[holder] = true
	return mps.Share{Env: map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "/pipe"}, Mounts: []gpu.Mount{{Source: "/run/x", Target: "/pipe"}}}, nil
}
func (d *daemons) End(_ context.Context, _, _ string, pids []int) error {
	d.ended = append(d.ended, pids...)
	return nil
}
func (d *daemons) Release(_ context.Context, _, holder string) error {
	delete(d.shares, holder)
	return nil
}
func (d *daemons) Health(context.Context, string) (mps.State, error) { return d.state, nil }

func TestMPS(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &daemons{ability: mps.Ability{MultiUser: true, Clients: 48}, shares: map[string]bool{}, state: mps.State{Condition: mps.Working}}
		s := newSite(t, []string{"H200"}, []fleet.Rule{{Match: "*", Mode: gpu.MPS}}, func(c *fleet.Config) { c.MPS = d })
		s.run()
		s.process(9, "nvidia-cuda-mps-server"[:15])
		occupy(t, s, simulated.Process{PID: 9})
		a := s.have("a", "mps:25%/20G")
		if b, err := s.fleet.Realise(t.Context(), "a", a); err != nil || b.Env["CUDA_MPS_PIPE_DIRECTORY"] != "/pipe" || len(b.Mounts) != 1 || b.Env["GPU"] == "" {
			t.Fatalf("%+v, %v", b, err)
		}
		if _, lacks := s.lease("x", ask(t, "mps:50%/20G")); lacks == "" {
			t.Error("a daemon with equal shares gives an unequal one")
		}
		b := s.have("b", "mps:25%/20G")
		if g := s.state(0); len(g.Offers) != 1 || g.Offers[0].Name != "mps:25%/20G" || g.Offers[0].Free != 2 || g.Tier != gpu.Process {
			t.Errorf("offers %+v at %s", g.Offers, g.Tier)
		}
		s.own(100, "a")
		occupy(t, s, simulated.Process{PID: 100, Memory: 1 << 30})
		if err := s.fleet.Part(t.Context(), "a", a); err != nil || !slices.Equal(d.ended, []int{100}) {
			t.Errorf("ended %v, %v", d.ended, err)
		}
		s.release("a", a)
		later(time.Second)
		if !d.shares["a"] {
			t.Error("a share is taken back that a process still uses")
		}
		if free, _ := s.fleet.Count(ask(t, "mps:25%/20G"), []gpu.Slice{b}); free != 2 {
			t.Errorf("%d free while a process of a is left", free)
		}
		s.driver.Leave(100)
		later(3 * time.Second)
		if !maps.Equal(d.shares, map[string]bool{"b": true}) {
			t.Errorf("shares %v", d.shares)
		}
		s.strike("b") // the service ended before it could say so
		s.restart()
		if len(d.shares) != 0 {
			t.Errorf("after a restart: shares %v", d.shares)
		}
		d.state = mps.State{Condition: mps.Faulty, Why: "a fatal fault"}
		s.refresh()
		if g := s.state(0); g.Condition != gpu.Drained || g.Why != "a fatal fault" {
			t.Errorf("%s %s", g.Condition, g.Why)
		}
	})
}

func TestMPSRefused(t *testing.T) {
	s := newSite(t, []string{"H200"}, []fleet.Rule{{Match: "*", Mode: gpu.MPS}}, nil)
	if g := s.state(0); g.Condition != gpu.Unset || g.Why == "" {
		t.Errorf("without daemons: %s %s", g.Condition, g.Why)
	}
	d := &daemons{ability: mps.Ability{V3: true, Clients: 48}, shares: map[string]bool{}, refuse: gpu.ErrBadPlace}
	s = newSite(t, []string{"H200"}, []fleet.Rule{{Match: "*", Mode: gpu.MPS}}, func(c *fleet.Config) { c.MPS = d })
	a, _ := s.lease("a", ask(t, "mps:30%/20G"))
	if _, err := s.fleet.Realise(t.Context(), "a", a); !errors.Is(err, gpu.ErrBadPlace) || s.state(0).Condition != gpu.Drained {
		t.Errorf("a daemon that does not start: %v, %s", err, s.state(0).Condition)
	}
}

func TestConfine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200"}, []fleet.Rule{{Match: "*", Mode: gpu.Shared}}, func(c *fleet.Config) {
			d, err := simulated.New(simulated.Config{Models: []string{"H200"}, R615: true})
			if err != nil {
				t.Fatal(err)
			}
			c.Driver, c.Cgroups = d, t.TempDir()
		})
		d := s.cfg.Driver.(*simulated.Driver)
		r := gpu.Request{Mode: gpu.Shared, Memory: 10 << 30, Group: "cms", Least: gpu.Cgroup}
		a, lacks := s.lease("a", r)
		if lacks != "" || a.Tier != gpu.Cgroup {
			t.Fatalf("%v, %q", a, lacks)
		}
		b, err := s.fleet.Realise(t.Context(), "a", a)
		if err != nil || b.Limit != 10<<30 {
			t.Fatalf("%+v, %v", b, err)
		}
		if err := s.fleet.Confine(t.Context(), a, "system.slice/docker-1.scope"); err != nil {
			t.Fatal(err)
		}
		if got := d.Limits(a.GPU); got["system.slice/docker-1.scope"] != 10<<30 {
			t.Errorf("limits %v", got)
		}
		s.restart()
		s.release("a", a)
		s.refresh()
		if got := d.Limits(a.GPU); len(got) != 0 || s.store.count("gpu-uses") != 0 {
			t.Errorf("limits %v and %d uses when all is over", got, s.store.count("gpu-uses"))
		}
	})
	old := newSite(t, []string{"H200"}, []fleet.Rule{{Match: "*", Mode: gpu.Shared}}, nil)
	if _, lacks := old.lease("a", gpu.Request{Mode: gpu.Shared, Memory: 10 << 30, Least: gpu.Cgroup}); lacks == "" {
		t.Error("a driver without limits is taken for one that has them")
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
		occupy(t, s, simulated.Process{PID: 100, GI: s.instances(0)[0].GI})
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
