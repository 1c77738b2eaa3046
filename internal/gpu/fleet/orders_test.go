package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/fleet"
)

func (s *site) drain(name, why string) {
	s.t.Helper()
	if _, err := s.fleet.Drain(s.t.Context(), name, "root of main", why); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) resume(name string) (left string) {
	s.t.Helper()
	_, left, err := s.fleet.Resume(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return left
}

// TestDrainByHand: what runs goes on, nothing new starts, and a new service knows.
func TestDrainByHand(t *testing.T) {
	for _, mode := range []gpu.Mode{gpu.MIG, gpu.Whole, gpu.Shared} {
		t.Run(string(mode), func(t *testing.T) {
			request := map[gpu.Mode]string{gpu.MIG: "1g.18gb", gpu.Whole: "whole", gpu.Shared: "shared"}[mode]
			models := []string{"H200", "H200"}
			if mode == gpu.MIG {
				models = []string{"H200/mig", "H200/mig"}
			}
			s := newSite(t, models, []fleet.Rule{{Match: "*", Mode: mode}}, nil)
			r := ask(t, request)
			r.Group = "higgs"
			a, lacks := s.lease("a", r)
			if lacks != "" {
				t.Fatal(lacks)
			}
			s.drain(s.uuids[0], "the fan is loud")
			s.drain("0", "") // a repetition keeps the reason
			s.drain("1", "")
			for range 2 {
				for i, why := range []string{"drained by root of main on", "drained by root of main on"} {
					if g := s.state(i); g.Condition != gpu.Drained || !strings.Contains(g.Why, why) || strings.Contains(g.Why, "fan is loud") != (i == 0) || g.Drain == nil {
						t.Errorf("%d is %s: %q", i, g.Condition, g.Why)
					}
				}
				if _, lacks := s.lease("b", r); lacks == "" || s.fleet.Usable(s.uuids[0]) {
					t.Error("something new is leased of it, or may be")
				}
				s.restart()
			}
			if got := s.state(0).Slices; len(got) != 1 || got[0].Holder != "a" {
				t.Errorf("what runs on it is %v", got)
			}
			if _, err := s.fleet.Realise(t.Context(), "a", a); err != nil {
				t.Errorf("who has held it since before: %v", err)
			}
			if left := s.resume("0") + s.resume("1"); left != "" {
				t.Errorf("there is left: %s", left)
			}
			s.restart()
			if !s.fleet.Usable(s.uuids[0]) || s.fleet.Usable("GPU-none") {
				t.Error("it is not usable, or one that is not there is")
			}
			if _, lacks := s.lease("b", r); lacks != "" || s.state(0).Condition != gpu.Ready || s.store.count("gpu-orders") != 0 {
				t.Errorf("afterwards it is %s: %q, %d records", s.state(0).Condition, lacks, s.store.count("gpu-orders"))
			}
		})
	}
}

// TestHeldInAnotherMode: a rule that has changed counts once the GPU is empty, and until then the inventory says so.
func TestHeldInAnotherMode(t *testing.T) {
	s := newSite(t, []string{"H200"}, []fleet.Rule{{Match: "*", Mode: gpu.Whole}}, nil)
	slice := s.have("a", "whole")
	s.cfg.Rules = []fleet.Rule{{Match: "*", Mode: gpu.Shared}}
	s.restart()
	if g := s.state(0); g.Condition != gpu.Unset || !strings.Contains(g.Why, "still held on it in mode whole") {
		t.Errorf("while it is held: %s: %q", g.Condition, g.Why)
	}
	s.release("a", slice)
	if g := s.state(0); g.Condition != gpu.Ready {
		t.Errorf("empty: %s: %q", g.Condition, g.Why)
	}
}

// TestResumeAcknowledges: what spoke against the GPU then does not take it out again, and whatever is new does.
func TestResumeAcknowledges(t *testing.T) {
	well := gpu.Health{}
	for name, each := range map[string]struct {
		seen gpu.Health
		then []gpu.Health
		want gpu.Condition
	}{
		"the same":                {gpu.Health{Xid: 79, Xids: 1, ECC: 3, RowsPending: true}, nil, gpu.Ready},
		"the driver's words":      {gpu.Health{RowsPending: true, Reason: "a row failed"}, []gpu.Health{{RowsPending: true, Reason: "a row failed"}}, gpu.Ready},
		"warmer":                  {gpu.Health{Xid: 79}, []gpu.Health{{Xid: 79, Temperature: 90}}, gpu.Ready},
		"less":                    {gpu.Health{Xid: 79, ECC: 3}, []gpu.Health{{ECC: 3}}, gpu.Ready},
		"another Xid":             {gpu.Health{Xid: 79}, []gpu.Health{{Xid: 48}}, gpu.Drained},
		"the same Xid once more":  {gpu.Health{Xid: 79, Xids: 1}, []gpu.Health{{Xid: 79, Xids: 2}}, gpu.Drained},
		"the same Xid later":      {gpu.Health{Xid: 79, Xids: 1}, []gpu.Health{well, {Xid: 79, Xids: 1}}, gpu.Drained},
		"one more error":          {gpu.Health{ECC: 3}, []gpu.Health{{ECC: 4}}, gpu.Drained},
		"errors since a reset":    {gpu.Health{ECC: 3}, []gpu.Health{well, {ECC: 1}}, gpu.Drained},
		"rows beside":             {gpu.Health{ECC: 3}, []gpu.Health{{ECC: 3, RowsPending: true}}, gpu.Drained},
		"rows again":              {gpu.Health{RowsPending: true}, []gpu.Health{well, {RowsPending: true}}, gpu.Drained},
		"a row that fails":        {gpu.Health{RowsPending: true}, []gpu.Health{{RowsPending: true, Reason: "a row failed"}}, gpu.Drained},
		"lost":                    {gpu.Health{Xid: 79}, []gpu.Health{{Lost: true, Xid: 79}}, gpu.Gone},
		"lost and back, no worse": {gpu.Health{ECC: 3}, []gpu.Health{{Lost: true}, {ECC: 3}}, gpu.Ready},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, []string{"H200/mig"}, mig(), nil)
			s.driver.Sicken(s.uuids[0], each.seen, 0)
			s.refresh()
			if c := s.state(0).Condition; c != gpu.Drained {
				t.Fatalf("at first it is %s", c)
			}
			if left := s.resume(s.uuids[0]); left != "" || s.state(0).Condition != gpu.Ready {
				t.Fatalf("resumed: %s, left: %s", s.state(0).Condition, left)
			}
			s.restart()
			for _, h := range each.then {
				s.driver.Sicken(s.uuids[0], h, 0)
				s.refresh()
				if !h.Lost { // it would not be listed
					s.restart()
				}
			}
			if g := s.state(0); g.Condition != each.want {
				t.Errorf("it is %s: %q", g.Condition, g.Why)
			}
		})
	}
}

// TestResumeEndsQuarantines at once and for good; what has failed is made anew, and a place that fails again begins
// with the first time.
func TestResumeEndsQuarantines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, []string{"H200/mig", "H200"}, mig(fleet.Rule{Match: "1", Mode: gpu.Whole}), nil)
		a := s.have("a", "1g.18gb")
		whole := s.have("b", "whole")
		s.release("a", a)
		s.release("b", whole)
		later(time.Minute)
		for range 3 {
			s.fleet.Condemn(a, "wrong results")
			s.fleet.Condemn(whole, "wrong results")
		}
		if len(quarantined(s.state(0))) != 1 || s.state(1).Condition != gpu.Drained {
			t.Fatalf("%+v, %s", s.state(0).Slices, s.state(1).Condition)
		}
		s.resume("0")
		if len(quarantined(s.state(0))) != 0 || s.state(1).Condition != gpu.Drained {
			t.Errorf("the first is resumed: %+v, the other is %s", s.state(0).Slices, s.state(1).Condition)
		}
		s.resume("1")
		s.restart()
		if len(quarantined(s.state(0))) != 0 || s.state(1).Condition != gpu.Ready {
			t.Errorf("after a restart: %+v, the other is %s", s.state(0).Slices, s.state(1).Condition)
		}
		later(time.Minute)
		again := time.Now()
		for i := range 7 {
			s.have("c"+itoa(i), "1g.18gb")
		}
		if made := s.made(); len(made) != 7 || slices.ContainsFunc(made, again.After) {
			t.Errorf("the instance that has failed is used as it is: %v, after %s", made, again)
		}
		s.fleet.Condemn(whole, "wrong results")
		if q := quarantined(s.state(1)); len(q) != 1 || time.Until(*q[0].Quarantined) != 30*time.Minute {
			t.Errorf("the next failure: %v", q)
		}
	})
}

// made tells when the instances were made, by the fleet's records.
func (s *site) made() (all []time.Time) {
	for r := range s.store.All(s.t.Context(), "gpu-instances") {
		var record struct{ Made time.Time }
		if err := json.Unmarshal(r.Value, &record); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, record.Made)
	}
	return all
}

func onPart(s *site) {
	s.have("a", "1g.18gb")
	occupy(s.t.(*testing.T), s, fakegpu.Process{PID: 4711, GI: s.instances(0)[0].GI})
}

// TestResumeSaysWhatItLeaves: what the configuration says and what others do is theirs.
func TestResumeSaysWhatItLeaves(t *testing.T) {
	for name, each := range map[string]struct {
		model string
		rule  fleet.Rule
		spoil func(*site)
		want  string
	}{
		"a rule":        {"H200", fleet.Rule{Match: "*", Mode: gpu.Whole, Drain: true}, func(*site) {}, "gpu.devices: drain"},
		"a process":     {"H200", fleet.Rule{Match: "*", Mode: gpu.Whole}, func(s *site) { occupy(s.t.(*testing.T), s, fakegpu.Process{PID: 4711, Memory: 1 << 30}) }, "4711"},
		"on a part":     {"H200/mig", fleet.Rule{Match: "*", Mode: gpu.MIG}, onPart, "1 processes"},
		"a lost one":    {"H200", fleet.Rule{Match: "*", Mode: gpu.Whole}, func(s *site) { s.driver.Sicken(s.uuids[0], gpu.Health{Lost: true}, 0) }, "lost"},
		"another mode":  {"A100-80", fleet.Rule{Match: "*", Mode: gpu.MIG}, func(*site) {}, "MIG is off"},
		"a mute driver": {"H200", fleet.Rule{Match: "*", Mode: gpu.Whole}, func(s *site) { s.driver.Fail("", fakegpu.Fault{Err: errors.New("the helper has ended")}) }, "cannot be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, []string{each.model}, []fleet.Rule{each.rule}, nil)
				each.spoil(s)
				later(time.Minute)
				_ = s.fleet.Refresh(t.Context())
				s.drain("0", "to see")
				if left := s.resume("0"); !strings.Contains(left, each.want) || !strings.Contains(left, "are not put right") || strings.Contains(left, "to see") {
					t.Errorf("there is left: %q", left)
				}
			})
		})
	}
}

// empty is a driver whose GPUs have all gone.
type empty struct{ gpu.Driver }

func (empty) Devices(context.Context) ([]gpu.Device, error) { return nil, nil }

func TestWhichGPU(t *testing.T) {
	s := newSite(t, []string{"H200", "H200", "L40S"}, nil, nil)
	for name, want := range map[string]string{
		"1": s.uuids[1], s.uuids[2]: s.uuids[2], strings.ToLower(s.uuids[0]): s.uuids[0], s.uuids[1][:len(s.uuids[1])-1]: s.uuids[1],
	} {
		if got, err := s.fleet.Drain(t.Context(), name, "root", ""); err != nil || got != want {
			t.Errorf("%q is %s, %v", name, got, err)
		}
	}
	for name, kind := range map[string]errs.Kind{
		"": errs.NotFound, "3": errs.NotFound, "-1": errs.NotFound, "00": errs.NotFound, "H200": errs.NotFound, "*": errs.NotFound, "GPU-": errs.Invalid, "g": errs.Invalid,
		strings.Repeat("GPU-\x00", 500): errs.NotFound,
	} {
		for what, do := range map[string]func() error{
			"drain":  func() error { _, err := s.fleet.Drain(t.Context(), name, "root", ""); return err },
			"resume": func() error { _, _, err := s.fleet.Resume(t.Context(), name); return err },
		} {
			if err := do(); !errs.Is(err, kind) || !strings.Contains(err.Error(), "2 ("+s.uuids[2]+")") || len(err.Error()) > 600 {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
	none := newSite(t, []string{"H200"}, nil, func(c *fleet.Config) { c.Store, c.Driver = s.store, empty{c.Driver} })
	if _, err := none.fleet.Drain(t.Context(), "0", "root", ""); !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), s.uuids[1]) {
		t.Errorf("a GPU that has gone: %v", err)
	}
	if uuid, left, err := none.fleet.Resume(t.Context(), s.uuids[1]); err != nil || uuid != s.uuids[1] || left == "" {
		t.Errorf("a GPU that has gone: %s, %q, %v", uuid, left, err)
	}
}

// TestOrdersAreRecordedFirst: at every write that fails, nothing is in force that a new service would not know, and to
// repeat it is enough.
func TestOrdersAreRecordedFirst(t *testing.T) {
	broken := errors.New("the disk is broken")
	for writes := range 4 {
		s := newSite(t, []string{"H200/mig"}, mig(), nil)
		for i := range 2 {
			s.fleet.Condemn(gpu.Slice{GPU: s.uuids[0], Mode: gpu.MIG, Profile: "1g.18gb", Placement: gpu.Placement{Start: i, Size: 1}}, "wrong results")
		}
		fail := func(left int) {
			s.store.step = func(string) error {
				if left--; left < 0 {
					return broken
				}
				return nil
			}
		}
		fail(0)
		if _, err := s.fleet.Drain(t.Context(), "0", "root", ""); !errors.Is(err, broken) || s.state(0).Condition != gpu.Ready {
			t.Fatalf("%v, %s", err, s.state(0).Condition)
		}
		s.store.step = nil
		s.drain("0", "")
		fail(writes)
		_, _, err := s.fleet.Resume(t.Context(), "0")
		if errors.Is(err, broken) != (writes < 3) {
			t.Fatalf("after %d writes: %v", writes, err)
		}
		s.store.step = nil
		seen, q := s.state(0).Condition, len(quarantined(s.state(0)))
		if (seen == gpu.Drained) != (writes < 3) || q != max(0, 2-writes) {
			t.Errorf("after %d writes it is %s, %d quarantined", writes, seen, q)
		}
		s.restart()
		if g := s.state(0); g.Condition != seen || len(quarantined(g)) != q {
			t.Errorf("after %d writes and a restart it is %s, not %s; %d quarantined, not %d", writes, g.Condition, seen, len(quarantined(g)), q)
		}
		if left := s.resume("0"); left != "" || s.state(0).Condition != gpu.Ready || len(quarantined(s.state(0))) != 0 {
			t.Errorf("repeated: %q", left)
		}
	}
}

func TestPublicDrain(t *testing.T) {
	s := newSite(t, []string{"H200"}, nil, nil)
	s.drain("0", "alice broke it")
	if g := s.fleet.Inventory().Public().GPUs[0]; g.Drain != nil || g.Why != "taken out of use by an administrator" {
		t.Errorf("everybody reads %q, %v", g.Why, g.Drain)
	}
}
