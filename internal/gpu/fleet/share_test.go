package fleet_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/fleet"
	"slipway/internal/gpu/mps"
)

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
		occupy(t, s, fakegpu.Process{PID: 9})
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
		occupy(t, s, fakegpu.Process{PID: 100, Memory: 1 << 30})
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
			d, err := fakegpu.New(fakegpu.Config{Models: []string{"H200"}, R615: true})
			if err != nil {
				t.Fatal(err)
			}
			c.Driver, c.Cgroups = d, t.TempDir()
		})
		d := s.cfg.Driver.(*fakegpu.Driver)
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
