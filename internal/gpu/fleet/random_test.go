package fleet_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/fleet"
)

// TestWhateverHappens plays days of leases, releases and faults. At each moment no two slices that are held overlap,
// what somebody else has made is as it was, and whoever was given a slice has exactly that.
func TestWhateverHappens(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { newDay(t, seed).play(150) })
		})
	}
}

type day struct {
	*site
	rng     *rand.Rand
	foreign []gpu.Instance
	n       int
}

func newDay(t *testing.T, seed uint64) *day {
	d := &day{site: newSite(t, []string{"H200/mig", "A100-40/mig", "RTX-PRO-6000/mig"}, mig(), nil), rng: rand.New(rand.NewPCG(seed, 1))}
	return d
}

func (d *day) play(moves int) {
	d.t.Helper()
	for range moves {
		switch p := d.rng.IntN(100); {
		case p < 45:
			d.want()
		case p < 75:
			d.leave()
		case p < 88:
			d.break1()
		case p < 91:
			d.intrude()
		case p < 94:
			d.driver.Heal()
			later(time.Minute)
			d.refresh()
		case p < 97:
			d.restart()
		default:
			if all := d.held(); len(all) > 0 {
				d.fleet.Condemn(all[0].Slice, "a test of tests")
				d.release(all[0].Holder, all[0].Slice)
			}
		}
		d.invariant()
	}
	d.driver.Heal()
	later(time.Minute)
	d.refresh()
	d.sound(-1, d.foreign...)
}

// want leases something and makes it real, or gives it back.
func (d *day) want() {
	d.n++
	holder := fmt.Sprint("w", d.n)
	request := []string{"1g", "1g", "1g+me", "2g", "3g", "4g", "7g.141gb"}[d.rng.IntN(7)]
	slice, lacks := d.lease(holder, ask(d.t, request))
	if lacks != "" {
		return
	}
	b, err := d.fleet.Realise(d.t.Context(), holder, slice)
	if err != nil {
		d.strike(holder)
		d.fleet.Release(holder, slice)
		return
	}
	for i := range d.uuids {
		for _, in := range d.instances(i) {
			if in.GPU == slice.GPU && in.UUID == b.Env["INSTANCE"] && (in.Placement != slice.Placement || in.Profile != slice.Profile) {
				d.t.Fatalf("%s was given %v for %v", holder, in, slice)
			}
		}
	}
}

func (d *day) leave() {
	if all := d.held(); len(all) > 0 {
		l := all[d.rng.IntN(len(all))]
		d.release(l.Holder, l.Slice)
	}
}

// break1 has something go wrong.
func (d *day) break1() {
	uuid := d.uuids[d.rng.IntN(len(d.uuids))]
	ops := []fakegpu.Op{fakegpu.OpCreate, fakegpu.OpDestroy, fakegpu.OpInstances, fakegpu.OpRead, fakegpu.OpDevices}
	f := fakegpu.Fault{On: ops[d.rng.IntN(len(ops))], Times: 1 + d.rng.IntN(4)}
	switch d.rng.IntN(5) {
	case 0:
		f.Err = gpu.ErrInUse
	case 1:
		f.Err = errors.New("the driver has hiccups")
	case 2:
		f.Remnant = f.On == fakegpu.OpCreate || f.On == fakegpu.OpDestroy
	case 3:
		f.Delay = 3 * time.Second
	case 4:
		f.Err = gpu.ErrNoRoom
	}
	d.driver.Fail(uuid, f)
}

// intrude has somebody else make an instance.
func (d *day) intrude() {
	i := d.rng.IntN(len(d.uuids))
	dev := d.state(i).Device
	p := dev.Profiles[d.rng.IntN(len(dev.Profiles))]
	at := p.Placements[d.rng.IntN(len(p.Placements))]
	for _, l := range d.held() {
		if l.Slice.GPU == d.uuids[i] && at.Start < l.Slice.Placement.Start+l.Slice.Placement.Size && l.Slice.Placement.Start < at.Start+at.Size {
			return
		}
	}
	d.driver.Heal()
	d.refresh() // from here on nothing is known as ours that is not there
	if in, err := d.driver.CreateInstance(d.t.Context(), d.uuids[i], p.Name, at); err == nil {
		d.foreign = append(d.foreign, in)
	}
}

// invariant holds at any moment, whatever is broken.
func (d *day) invariant() {
	d.t.Helper()
	all := d.held()
	for i, a := range all {
		for _, b := range all[i+1:] {
			x, y := a.Slice.Placement, b.Slice.Placement
			if a.Slice.GPU == b.Slice.GPU && x.Start < y.Start+y.Size && y.Start < x.Start+x.Size {
				d.t.Fatalf("%s at %v and %s at %v overlap", a.Holder, x, b.Holder, y)
			}
		}
	}
	there := map[string][]gpu.Instance{}
	peek := d.peek()
	for i, uuid := range d.uuids {
		there[uuid] = peek[i]
	}
	for _, l := range all {
		if !has(there[l.Slice.GPU], l.Slice.Profile, l.Slice.Placement) {
			d.t.Fatalf("%s has lost %v: %v", l.Holder, l.Slice, there[l.Slice.GPU])
		}
	}
	for _, f := range d.foreign {
		if !has(there[f.GPU], f.Profile, f.Placement) {
			d.t.Fatalf("somebody else's %v is gone: %v", f, there[f.GPU])
		}
	}
}

// peek lists all instances past the faults that wait for calls.
func (d *day) peek() (all [][]gpu.Instance) {
	for _, uuid := range d.uuids {
		for {
			found, err := d.driver.Instances(d.t.Context(), uuid)
			if err == nil {
				all = append(all, found)
				break
			}
		}
	}
	return all
}

// TestManyAtOnce leases and releases from many sides at once, beside a fleet that runs.
func TestManyAtOnce(t *testing.T) {
	s := newSite(t, []string{"H200/mig", "H200/mig", "A100-40/mig"}, mig(), func(c *fleet.Config) { c.Every = time.Millisecond })
	s.runReal()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			for j := range 60 {
				holder := fmt.Sprint("w", i, "-", j)
				slice, lacks := s.lease(holder, gpu.Request{Mode: gpu.MIG, Profile: []string{"1g", "2g", "3g"}[rng.IntN(3)]})
				if lacks != "" {
					continue
				}
				if _, err := s.fleet.Realise(t.Context(), holder, slice); err != nil {
					t.Errorf("%s: %v", holder, err)
				}
				s.fleet.Inventory()
				s.release(holder, slice)
			}
		})
	}
	all.Wait()
	s.refresh()
	s.sound(0)
}
