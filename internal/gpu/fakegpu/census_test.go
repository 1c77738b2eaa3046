package fakegpu_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
)

// choice is one way to cut one instance.
type choice struct {
	profile gpu.Profile
	at      gpu.Placement
}

func choices(dev gpu.Device) []choice {
	var all []choice
	for _, p := range dev.Profiles {
		for _, at := range p.Placements {
			all = append(all, choice{p, at})
		}
	}
	return all
}

// slots is the plainest model of a GPU: who is in each slot.
type slots struct {
	owner []int // of each slot: the choice, or -1
	count map[string]int
}

func (s slots) fits(c choice) bool {
	free := !slices.ContainsFunc(s.owner[c.at.Start:c.at.Start+c.at.Size], func(o int) bool { return o >= 0 })
	return free && s.count[c.profile.Name] < c.profile.Max
}

func (s slots) set(c choice, from, to int) {
	for i := range s.owner {
		if i >= c.at.Start && i < c.at.Start+c.at.Size && s.owner[i] == from {
			s.owner[i] = to
		}
	}
}

// FuzzSequence makes and destroys as data says, and holds the outcome against the plain model.
func FuzzSequence(f *testing.F) {
	f.Add(uint8(5), []byte{0, 1, 2, 3, 128, 7, 40, 200, 9})
	f.Add(uint8(0), []byte{0, 4, 4, 0, 130, 0})
	f.Add(uint8(7), []byte("a long walk over twelve slots and back again"))
	for i := range 40 {
		var walk []byte
		for k := range 60 {
			walk = append(walk, byte(i*37+k*k*11+k*i))
		}
		f.Add(uint8(i), walk)
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		names := slices.DeleteFunc(fakegpu.Models(), func(s string) bool { return s == "L40S" })
		d := host(t, names[int(which)%len(names)]+"/mig")
		dev := device(t, d)
		walk(t, d, dev, data)
	})
}

func walk(t *testing.T, d *fakegpu.Driver, dev gpu.Device, data []byte) {
	all := choices(dev)
	model := slots{owner: slices.Repeat([]int{-1}, dev.Slots), count: map[string]int{}}
	made := map[int]gpu.Instance{} // by choice
	for _, step := range data {
		i := int(step&0x7f) % len(all)
		c := all[i]
		if step < 0x80 {
			fits := model.fits(c)
			in, err := d.CreateInstance(t.Context(), dev.UUID, c.profile.Name, c.at)
			if fits != (err == nil) || err != nil && !errors.Is(err, gpu.ErrNoRoom) {
				t.Fatalf("%s at %v fits: %v; CreateInstance() = %v", c.profile.Name, c.at, fits, err)
			}
			if fits {
				made[i] = in
				model.set(c, -1, i)
				model.count[c.profile.Name]++
			}
		} else if in, there := made[i]; there {
			if err := d.DestroyInstance(t.Context(), dev.UUID, in.GI); err != nil {
				t.Fatal(err)
			}
			delete(made, i)
			model.set(c, i, -1)
			model.count[c.profile.Name]--
		}
		agree(t, d, dev, made)
	}
}

// agree checks that a GPU is cut as it was told, and that no two instances have one number.
func agree(t *testing.T, d *fakegpu.Driver, dev gpu.Device, made map[int]gpu.Instance) {
	t.Helper()
	got := instances(t, d, dev.UUID)
	if len(got) != len(made) {
		t.Fatalf("there are %+v, not %+v", got, made)
	}
	byGI := map[int]gpu.Instance{}
	for _, in := range got {
		byGI[in.GI] = in
	}
	for _, in := range made {
		if there := byGI[in.GI]; there.Profile != in.Profile || there.Placement != in.Placement || there.UUID != in.UUID {
			t.Fatalf("%+v is now %+v", in, there)
		}
	}
}

// TestCensus counts all states that a Hopper GPU can be cut into: 723, and 78 of them full.
func TestCensus(t *testing.T) {
	d := host(t, "H100-80/mig")
	dev := device(t, d)
	all := slices.DeleteFunc(choices(dev), func(c choice) bool { return strings.HasSuffix(c.profile.Name, "+me") })
	if len(all) != 18 {
		t.Fatalf("%d placements", len(all))
	}
	seen, full := map[string]bool{}, 0
	var visit func(state []int)
	visit = func(state []int) {
		key := fmt.Sprint(slices.Sorted(slices.Values(state)))
		if seen[key] {
			return
		}
		seen[key] = true
		stuck := true
		for i, c := range all {
			in, err := d.CreateInstance(t.Context(), dev.UUID, c.profile.Name, c.at)
			if err != nil {
				continue
			}
			stuck = false
			visit(append(slices.Clone(state), i))
			if err := d.DestroyInstance(t.Context(), dev.UUID, in.GI); err != nil {
				t.Fatal(err)
			}
		}
		if stuck {
			full++
		}
	}
	visit(nil)
	if len(seen) != 723 || full != 78 {
		t.Errorf("%d states, %d of them full", len(seen), full)
	}
}
