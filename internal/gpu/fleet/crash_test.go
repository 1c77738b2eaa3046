package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fleet"
)

// steps counts what a fleet does to the world, and ends it at one of these steps: before it is done, or when it is done
// and the fleet does not know yet.
type steps struct {
	gpu.Driver
	n, at int
	after bool
	err   error // what the step fails with; nil: the service ends there
}

// ended is what the end of a service looks like from inside.
type ended struct{}

func (s *steps) meet(do func() error) error {
	s.n++
	if s.n != s.at {
		return do()
	}
	if s.after {
		if err := do(); err != nil {
			return err
		}
	}
	if s.err != nil {
		return s.err
	}
	panic(ended{})
}

func (s *steps) CreateInstance(ctx context.Context, uuid, profile string, at gpu.Placement) (in gpu.Instance, err error) {
	err = s.meet(func() error { in, err = s.Driver.CreateInstance(ctx, uuid, profile, at); return err })
	return in, err
}

func (s *steps) DestroyInstance(ctx context.Context, uuid string, gi int) error {
	return s.meet(func() error { return s.Driver.DestroyInstance(ctx, uuid, gi) })
}

func (s *steps) Instances(ctx context.Context, uuid string) (all []gpu.Instance, err error) {
	err = s.meet(func() error { all, err = s.Driver.Instances(ctx, uuid); return err })
	return all, err
}

func (s *steps) Read(ctx context.Context, uuid string) (r gpu.Reading, err error) {
	err = s.meet(func() error { r, err = s.Driver.Read(ctx, uuid); return err })
	return r, err
}

// survive calls do, and reports whether the service was still there after it.
func survive(do func()) (lives bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(ended); !ok {
				panic(r)
			}
			lives = false
		}
	}()
	do()
	return true
}

// TestEndAtEveryStep ends the service at each thing that it does, and goes on with a new one.
func TestEndAtEveryStep(t *testing.T) {
	errBroken := errors.New("the pipe is broken")
	for _, mode := range []struct {
		name  string
		after bool
		err   error
	}{{"before", false, nil}, {"after", true, nil}, {"fails before", false, errBroken}, {"fails after", true, errBroken}} {
		t.Run(mode.name, func(t *testing.T) {
			last := 0
			for at := 1; at <= last+1; at++ {
				synctest.Test(t, func(t *testing.T) {
					if n := crashAt(t, at, mode.after, mode.err); at == 1 {
						last = n
					}
				})
			}
			if last < 20 {
				t.Fatalf("only %d steps were tried", last)
			}
		})
	}
}

// crashAt plays a day on a GPU on which somebody else has an instance; the service ends at step at. It gives how many
// steps there are.
func crashAt(t *testing.T, at int, after bool, failure error) int {
	var fault *steps
	s := newSite(t, []string{"H200/mig"}, mig(), func(c *fleet.Config) {
		fault = &steps{Driver: c.Driver, after: after, err: failure}
		c.Driver = fault
	})
	foreign, err := s.driver.CreateInstance(t.Context(), s.uuids[0], "1g.18gb", gpu.Placement{Start: 6, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.refresh()
	fault.n, fault.at = 0, at
	s.store.step = func(string) error { return fault.meet(func() error { return nil }) }
	done := map[string]gpu.Slice{}
	day := []struct{ holder, request string }{{"a", "1g.18gb"}, {"b", "2g.35gb"}, {"a", ""}, {"b", ""}, {"c", "4g.71gb"}, {"c", ""}, {"d", "1g.18gb"}, {"e", "3g.71gb"}}
	for _, each := range day {
		if each.request == "" {
			s.release(each.holder, done[each.holder])
			delete(done, each.holder)
			continue
		}
		slice, lacks := s.lease(each.holder, ask(t, each.request))
		if lacks != "" {
			if each.request == "3g.71gb" { // the foreign instance is in its way
				continue
			}
			t.Fatalf("step %d: %s", at, lacks)
		}
		done[each.holder] = slice
		s.persist(fault, each.holder, slice)
		s.sound(at, foreign)
	}
	return fault.n
}

// persist realises a slice as the engine does: again until it succeeds, with a new service when the old one has ended.
func (s *site) persist(fault *steps, holder string, slice gpu.Slice) {
	s.t.Helper()
	var err error
	for range 3 {
		lives := survive(func() { _, err = s.fleet.Realise(s.t.Context(), holder, slice) })
		if lives && err == nil {
			return
		}
		if !lives {
			s.restart()
		}
	}
	s.t.Fatalf("step %d: %v", fault.at, err)
}

// sound checks that each lease has its instance, that no two overlap, and that what is not ours is untouched and all
// that is ours is known.
func (s *site) sound(step int, foreign ...gpu.Instance) {
	s.t.Helper()
	for i, uuid := range s.uuids {
		there := s.instances(i)
		for j, a := range there {
			for _, b := range there[j+1:] {
				if a.Placement.Start < b.Placement.Start+b.Placement.Size && b.Placement.Start < a.Placement.Start+a.Placement.Size {
					s.t.Fatalf("step %d: %v and %v overlap", step, a, b)
				}
			}
		}
		for _, l := range s.held() {
			if l.Slice.GPU == uuid && !has(there, l.Slice.Profile, l.Slice.Placement) {
				s.t.Fatalf("step %d: %s has no instance at %v: %v", step, l.Holder, l.Slice.Placement, there)
			}
		}
		for _, f := range foreign {
			if f.GPU == uuid && !has(there, f.Profile, f.Placement) {
				s.t.Fatalf("step %d: somebody else's %v is gone: %v", step, f, there)
			}
		}
	}
	strange := 0
	for _, g := range s.fleet.Inventory().GPUs {
		for _, slice := range g.Slices {
			if slice.Foreign {
				strange++
			}
		}
	}
	if strange != len(foreign) {
		s.t.Fatalf("step %d: %d instances count as foreign, want %d: %s", step, strange, len(foreign), dump(s.fleet.Inventory().GPUs))
	}
}

func has(all []gpu.Instance, profile string, at gpu.Placement) bool {
	for _, in := range all {
		if in.Profile == profile && in.Placement == at && in.CI >= 0 {
			return true
		}
	}
	return false
}

func dump(gpus []gpu.State) (text string) {
	for _, g := range gpus {
		text += fmt.Sprintf("\n%s %s %s: ", gpu.ShortUUID(g.Device.UUID), g.Condition, g.Why)
		for _, s := range g.Slices {
			text += fmt.Sprintf("[%s@%d %s foreign=%v %s]", s.Slice.Profile, s.Slice.Placement.Start, s.Holder, s.Foreign, s.Why)
		}
	}
	return text
}
