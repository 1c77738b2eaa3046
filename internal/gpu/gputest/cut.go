package gputest

import (
	"errors"
	"testing"

	"slipway/internal/gpu"
)

func everyProfile(t *testing.T, b bench) {
	for _, p := range b.dev.Profiles {
		for _, at := range []gpu.Placement{p.Placements[0], p.Placements[len(p.Placements)-1]} {
			in := b.create(t, p, at)
			b.holds(t, in)
			b.destroy(t, in.GI)
			b.holds(t)
		}
	}
}

func cutFull(t *testing.T, b bench) {
	p := b.smallest()
	var all []gpu.Instance
	seen := map[any]bool{}
	for _, at := range p.Placements[:p.Max] {
		in := b.create(t, p, at)
		if seen[in.GI] || seen[in.UUID] {
			t.Errorf("two instances are %d or %s", in.GI, in.UUID)
		}
		seen[in.GI], seen[in.UUID] = true, true
		all = append(all, in)
	}
	b.holds(t, all...)
	b.refuses(t, b.whole(t).Name, gpu.Placement{Size: b.dev.Slots}, gpu.ErrNoRoom)
	b.holds(t, all...)
}

// overlapRefused puts every profile where the smallest is, next to one that it must leave alone.
func overlapRefused(t *testing.T, b bench) {
	p := b.smallest()
	in := b.create(t, p, p.Placements[0])
	for _, other := range b.dev.Profiles {
		for _, at := range other.Placements {
			if at.Start < in.Placement.Start+in.Placement.Size && in.Placement.Start < at.Start+at.Size {
				b.refuses(t, other.Name, at, gpu.ErrNoRoom)
			}
		}
	}
	b.holds(t, in)
}

// mostHolds looks at the profiles of which there may be fewer than places: those with media engines.
func mostHolds(t *testing.T, b bench) {
	for _, p := range b.dev.Profiles {
		if p.Max == len(p.Placements) {
			continue
		}
		var all []gpu.Instance
		for _, at := range p.Placements[:p.Max] {
			all = append(all, b.create(t, p, at))
		}
		b.refuses(t, p.Name, p.Placements[p.Max], gpu.ErrNoRoom)
		b.holds(t, all...)
		b.clear(t)
	}
}

func unknownRefused(t *testing.T, b bench) {
	p := b.smallest()
	size := p.Placements[0].Size
	for _, at := range []gpu.Placement{{Start: b.dev.Slots, Size: size}, {Start: -1, Size: size}, {Start: 0, Size: size + 1}, {}} {
		b.refuses(t, p.Name, at, gpu.ErrNoRoom)
	}
	for _, name := range []string{"", "9g.999gb", "1g"} {
		b.refuses(t, name, p.Placements[0], gpu.ErrNotSupported)
	}
	b.holds(t)
}

func destroyedIsGone(t *testing.T, b bench) {
	p := b.smallest()
	stays := b.create(t, p, p.Placements[0])
	for range 3 {
		in := b.create(t, p, p.Placements[1])
		b.holds(t, stays, in)
		b.destroy(t, in.GI)
		b.holds(t, stays)
	}
}

func destroyTwice(t *testing.T, b bench) {
	p := b.smallest()
	in := b.create(t, p, p.Placements[0])
	b.destroy(t, in.GI)
	b.destroy(t, in.GI)
	b.destroy(t, 1000)
	b.holds(t)
}

func inUseStays(t *testing.T, b bench) {
	crowd, ok := b.Driver.(Crowd)
	if !ok {
		t.Log("does not apply: the driver under test brings no process")
		return
	}
	p := b.smallest()
	in, other := b.create(t, p, p.Placements[0]), b.create(t, p, p.Placements[1])
	_, leave, err := crowd.Busy(b.dev.UUID, in.GI)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.DestroyInstance(t.Context(), b.dev.UUID, in.GI); !errors.Is(err, gpu.ErrInUse) {
		t.Errorf("DestroyInstance() with a process on it = %v", err)
	}
	b.destroy(t, other.GI)
	b.holds(t, in)
	leave()
	b.destroy(t, in.GI)
	b.holds(t)
}

func onIsOn(t *testing.T, b bench) {
	p := b.smallest()
	in := b.create(t, p, p.Placements[0])
	if err := b.SetMIG(t.Context(), b.dev.UUID, true); err != nil {
		t.Errorf("SetMIG(on) where it is on = %v", err)
	}
	b.holds(t, in)
}

func noLimits(t *testing.T, b bench) {
	if err := b.LimitMemory(t.Context(), b.dev.UUID, "slipway-test.slice", 1<<30); !errors.Is(err, gpu.ErrNotSupported) {
		t.Errorf("LimitMemory() of a GPU that is cut = %v", err)
	}
}
