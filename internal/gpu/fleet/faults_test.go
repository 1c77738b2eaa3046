package fleet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/fleet"
)

// bubble runs a test in its own time.
func bubble(t *testing.T, do func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, do)
}

// run has the fleet of a bubble look at its GPUs until the test ends.
func (s *site) run() {
	s.runReal()
	synctest.Wait()
}

// runReal does so in real time.
func (s *site) runReal() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	f := s.fleet
	go func() { ended <- f.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
}

func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestDestroyIsRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig"}, mig(), nil)
		s.release("a", s.have("a", "3g.71gb"))
		s.driver.Fail(s.uuids[0], fakegpu.Fault{On: fakegpu.OpDestroy, Err: gpu.ErrInUse, Times: 4})
		s.have("b", "7g.141gb")
		if got := s.instances(0); len(got) != 1 {
			t.Errorf("after four refusals: %v", got)
		}
	})
}

// TestStuckInstance: what cannot be destroyed is quarantined, the rest of the GPU goes on, and all is well when it is
// gone.
func TestStuckInstance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig"}, mig(), nil)
		a := s.have("a", "1g.18gb")
		s.release("a", a)
		dev := s.instances(0)[0]
		s.process(4711, "dcgmi", "/dev/nvidia-caps/nvidia-cap"+itoa(dev.Caps[0]))
		s.driver.Fail(s.uuids[0], fakegpu.Fault{On: fakegpu.OpDestroy, Err: gpu.ErrInUse})
		slice, lacks := s.lease("b", ask(t, "7g.141gb"))
		if lacks != "" {
			t.Fatal(lacks)
		}
		began := time.Now()
		_, err := s.fleet.Realise(t.Context(), "b", slice)
		if !errors.Is(err, gpu.ErrBadPlace) || !strings.Contains(err.Error(), "cannot be destroyed") || strings.Contains(err.Error(), "4711") {
			t.Fatalf("an instance that is held open: %v", err)
		}
		if !slices.ContainsFunc(s.state(0).Slices, func(p gpu.SliceState) bool { return strings.Contains(p.Why, "process 4711 (dcgmi)") }) {
			t.Errorf("the administrator is not told by whom: %+v", s.state(0).Slices)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %s to give up", took)
		}
		s.strike("b")
		if _, lacks := s.lease("b", ask(t, "7g.141gb")); !strings.Contains(lacks, "0 of 1 free") {
			t.Errorf("the whole axis is offered although a part is stuck: %q", lacks)
		}
		if c := s.have("c", "3g.71gb"); a.Placement.Start < c.Placement.Start+c.Placement.Size && c.Placement.Start <= a.Placement.Start {
			t.Errorf("a slice at %v over the stuck instance at %v", c.Placement, a.Placement)
		}
		if q := quarantined(s.state(0)); len(q) != 1 || !strings.Contains(q[0].Why, "dcgmi") || q[0].UUID == "" {
			t.Errorf("the inventory shows %v", q)
		}
		s.restart()
		if q := quarantined(s.state(0)); len(q) != 1 {
			t.Errorf("after a restart the quarantine is %v", q)
		}
		s.driver.Heal()
		if err := s.driver.DestroyInstance(t.Context(), s.uuids[0], dev.GI); err != nil {
			t.Fatal(err)
		}
		s.refresh()
		if q := quarantined(s.state(0)); len(q) != 0 {
			t.Errorf("the instance is gone, and its place still quarantined: %v", q)
		}
	})
}

func quarantined(g gpu.State) (all []gpu.SliceState) {
	for _, s := range g.Slices {
		if s.Quarantined != nil {
			all = append(all, s)
		}
	}
	return all
}

// process makes one that has files open, in the tree that stands for /proc.
func (s *site) process(pid int, name string, files ...string) {
	s.t.Helper()
	dir := filepath.Join(s.cfg.Proc, itoa(pid))
	if err := os.MkdirAll(filepath.Join(dir, "fd"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "comm"), []byte(name+"\n"), 0o644); err != nil {
		s.t.Fatal(err)
	}
	for i, file := range files {
		if err := os.Symlink(file, filepath.Join(dir, "fd", itoa(i))); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestRemnants(t *testing.T) {
	for _, op := range []fakegpu.Op{fakegpu.OpCreate, fakegpu.OpDestroy} {
		t.Run(string(op), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, []string{"H200/mig"}, mig(), nil)
				s.release("a", s.have("a", "2g.35gb"))
				s.driver.Fail(s.uuids[0], fakegpu.Fault{On: op, Remnant: true, Times: 2})
				s.have("b", "7g.141gb")
				s.sound(0)
			})
		})
	}
}

// TestPlaceThatAlwaysFails: it is quarantined, for longer each time, and the next place is found.
func TestPlaceThatAlwaysFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig"}, mig(), nil)
		s.run()
		s.driver.Fail(s.uuids[0], fakegpu.Fault{On: fakegpu.OpCreate, Remnant: true})
		fails := func() gpu.Slice {
			slice, lacks := s.lease("a", ask(t, "4g.71gb"))
			if lacks != "" {
				t.Fatal(lacks)
			}
			if _, err := s.fleet.Realise(t.Context(), "a", slice); !errors.Is(err, gpu.ErrBadPlace) {
				t.Fatalf("a place where nothing can be made: %v", err)
			}
			s.strike("a")
			return slice
		}
		first := fails()
		if _, lacks := s.lease("a", ask(t, "4g.71gb")); lacks == "" {
			t.Fatal("the place is offered again at once")
		}
		if other, lacks := s.lease("x", ask(t, "3g.71gb")); lacks != "" || other.Placement.Start == first.Placement.Start {
			t.Fatalf("the other half is %v, %q", other.Placement, lacks)
		}
		s.strike("x")
		later(31 * time.Minute)
		fails()
		s.restart()
		later(31 * time.Minute)
		s.refresh()
		if _, lacks := s.lease("a", ask(t, "4g.71gb")); lacks == "" {
			t.Fatal("a place that has failed twice is offered after half an hour")
		}
		later(30 * time.Minute)
		s.driver.Heal()
		s.refresh()
		s.have("a", "4g.71gb")
		later(4 * time.Hour)
		s.refresh()
		if n := s.store.count("gpu-quarantine"); n != 0 {
			t.Errorf("%d quarantines are kept for ever", n)
		}
	})
}

// TestSlowGPU: the destruction of an instance on one GPU keeps nobody from another one, and no reader.
func TestSlowGPU(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig", "H200/mig"}, mig(), nil)
		a, b := s.have("a", "7g.141gb"), s.have("b", "7g.141gb")
		slow := map[string]int{s.uuids[0]: 0, s.uuids[1]: 1}[a.GPU]
		s.release("a", a)
		s.driver.Fail(s.uuids[slow], fakegpu.Fault{On: fakegpu.OpDestroy, Delay: time.Hour})
		stuck := make(chan error)
		slice, _ := s.lease("c", ask(t, "3g.71gb"))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, err := s.fleet.Realise(ctx, "c", slice); stuck <- err }()
		synctest.Wait()
		began := time.Now()
		s.release("b", b)
		other, lacks := s.lease("d", gpu.Request{Mode: gpu.MIG, Profile: "7g.141gb"})
		if lacks != "" || other.GPU == a.GPU {
			t.Fatalf("%v, %q", other, lacks)
		}
		if _, err := s.fleet.Realise(t.Context(), "d", other); err != nil {
			t.Fatal(err)
		}
		s.refresh()
		if len(s.fleet.Inventory().GPUs) != 2 || time.Since(began) > time.Second {
			t.Errorf("the other GPU took %s", time.Since(began))
		}
		cancel()
		if err := <-stuck; err == nil || errors.Is(err, gpu.ErrBadPlace) {
			t.Errorf("who gave up was told %v", err)
		}
		s.driver.Heal()
		if _, err := s.fleet.Realise(t.Context(), "c", slice); err != nil {
			t.Errorf("and again: %v", err)
		}
		s.sound(0)
	})
}

func TestLostAndSick(t *testing.T) {
	for name, each := range map[string]struct {
		health    gpu.Health
		condition gpu.Condition
		words     string
	}{
		"lost": {gpu.Health{Lost: true}, gpu.Gone, ""},
		"xid":  {gpu.Health{Xid: 79, Reason: "GPU has fallen off the bus"}, gpu.Drained, "Xid 79"},
		"ecc":  {gpu.Health{ECC: 3}, gpu.Drained, "3 uncorrected memory errors"},
		"rows": {gpu.Health{RowsPending: true}, gpu.Drained, "reset"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, []string{"H200/mig"}, mig(), nil)
				a := s.have("a", "1g.18gb")
				s.run()
				s.driver.Sicken(s.uuids[0], each.health, 0)
				later(time.Minute)
				g := s.state(0)
				if g.Condition != each.condition || !strings.Contains(g.Why, each.words) || len(g.Slices) != 1 || g.Slices[0].Holder != "a" {
					t.Fatalf("%s: %q, %v", g.Condition, g.Why, g.Slices)
				}
				if _, lacks := s.lease("b", ask(t, "1g.18gb")); lacks == "" {
					t.Error("something new is leased of it")
				}
				if why := s.fleet.Never(ask(t, "1g.18gb")); why != "" {
					t.Errorf("a GPU that may come back is given up: %s", why)
				}
				if n := s.logged("may not be used"); n != 1 {
					t.Errorf("it is logged %d times", n)
				}
				s.driver.Heal()
				calls := s.changes()
				later(20 * time.Second)
				if s.state(0).Condition != gpu.Ready || s.changes() == calls || s.logged("may be used again") != 1 {
					t.Errorf("after it has recovered: %s, %d calls, %s", s.state(0).Condition, s.changes()-calls, s.text())
				}
				if _, err := s.fleet.Realise(t.Context(), "a", a); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSilentDriver: what is known stays to be seen, nothing is leased by it, and it is no fault of any place.
func TestSilentDriver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig"}, mig(), nil)
		a := s.have("a", "1g.18gb")
		silence := errors.New("the helper has ended")
		s.driver.Fail("", fakegpu.Fault{Err: silence})
		if err := s.fleet.Refresh(t.Context()); !errors.Is(err, silence) {
			t.Fatal(err)
		}
		if _, lacks := s.lease("b", ask(t, "1g.18gb")); !strings.Contains(lacks, "cannot be asked now") {
			t.Errorf("lacks %q", lacks)
		}
		if free, most := s.fleet.Count(ask(t, "1g.18gb"), nil); free != 0 || most != 0 {
			t.Errorf("%d of %d free", free, most)
		}
		inv := s.fleet.Inventory()
		if inv.Problem == "" || len(inv.GPUs) != 1 || len(inv.GPUs[0].Slices) != 1 {
			t.Errorf("the inventory is %+v", inv)
		}
		if _, err := s.fleet.Realise(t.Context(), "a", a); !errors.Is(err, silence) || errors.Is(err, gpu.ErrBadPlace) {
			t.Errorf("realise: %v", err)
		}
		s.restart()
		if why := s.fleet.Never(ask(t, "1g.18gb")); why != "" {
			t.Errorf("a host that nothing is known of: %s", why)
		}
		s.driver.Heal()
		s.refresh()
		s.sound(0)
		if _, err := s.fleet.Realise(t.Context(), "a", a); err != nil {
			t.Error(err)
		}
	})
}

// TestReboot: instances are gone, and MIG mode too. Records of what is gone are forgotten, and what somebody else has
// cut meanwhile at the same place is not ours.
func TestReboot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig"}, mig(), func(c *fleet.Config) { c.SwitchMIG, c.Boot = true, "boot-1" })
		a := s.have("a", "1g.18gb")
		if err := s.driver.Reboot(); err != nil {
			t.Fatal(err)
		}
		s.cfg.Boot = "boot-2"
		s.strike("a")
		if err := s.driver.SetMIG(t.Context(), s.uuids[0], true); err != nil {
			t.Fatal(err)
		}
		foreign, err := s.driver.CreateInstance(t.Context(), s.uuids[0], a.Profile, a.Placement)
		if err != nil {
			t.Fatal(err)
		}
		s.restart()
		s.sound(0, foreign)
		if s.store.count("gpu-instances") != 0 {
			t.Error("an instance of another boot is remembered")
		}
		if b := s.have("b", "1g.18gb"); b.Same(a) {
			t.Error("somebody else's instance is leased")
		}
	})
}

func TestRebootMakesAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200"}, mig(), func(c *fleet.Config) { c.SwitchMIG = true })
		s.run()
		later(20 * time.Second)
		a := s.have("a", "2g.35gb")
		if err := s.driver.Reboot(); err != nil {
			t.Fatal(err)
		}
		s.strike("a")
		later(2 * time.Minute)
		if g := s.state(0); !g.Device.MIGEnabled || g.Condition != gpu.Ready {
			t.Fatalf("after a reboot: %s %s", g.Condition, g.Why)
		}
		s.mu.Lock()
		s.leases = append(s.leases, gpu.Lease{Holder: "a", Slice: a})
		s.mu.Unlock()
		if _, err := s.fleet.Realise(t.Context(), "a", a); err != nil {
			t.Fatal(err)
		}
		s.sound(0)
	})
}
