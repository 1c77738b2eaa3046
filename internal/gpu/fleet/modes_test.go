package fleet_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/fleet"
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
		occupy(t, s, fakegpu.Process{PID: 100, Memory: 1 << 30})
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
		occupy(t, s, fakegpu.Process{PID: 200, Memory: 1 << 30})
		if c, lacks := s.lease("c", ask(t, "whole")); lacks == "" {
			_, err := s.fleet.Realise(t.Context(), "c", c)
			if !errors.Is(err, gpu.ErrBadPlace) || strings.Contains(err.Error(), "process 200") {
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

func occupy(t *testing.T, s *site, p fakegpu.Process) {
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
		occupy(t, s, fakegpu.Process{PID: 100, GI: s.instances(0)[0].GI, Memory: 1 << 20})
		s.strike("a")
		b, lacks := s.lease("b", ask(t, "1g.18gb"))
		if lacks != "" || !b.Same(a) {
			t.Fatalf("%v, %q", b, lacks)
		}
		if _, err := s.fleet.Realise(t.Context(), "b", b); !errors.Is(err, gpu.ErrBadPlace) || strings.Contains(err.Error(), "process 100") {
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
		occupy(t, s, fakegpu.Process{PID: 200})
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
