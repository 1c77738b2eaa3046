package fakegpu

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
)

// tables are what lgip and lgipp of real GPUs print: name, number, processors, most, size and starts.
func TestTables(t *testing.T) {
	type row struct {
		Name                 string
		ID, Compute, SMs     int
		Most, Size, Of       int
		FirstStart, LastSlot int
	}
	for model, want := range map[string][]row{
		"H100-NVL": {
			{"1g.12gb", 19, 1, 16, 7, 1, 7, 0, 6}, {"1g.12gb+me", 20, 1, 16, 1, 1, 7, 0, 6}, {"1g.24gb", 15, 1, 26, 4, 2, 4, 0, 7},
			{"2g.24gb", 14, 2, 32, 3, 2, 3, 0, 5}, {"3g.47gb", 9, 3, 60, 2, 4, 2, 0, 7}, {"4g.47gb", 5, 4, 64, 1, 4, 1, 0, 3},
			{"7g.94gb", 0, 7, 132, 1, 8, 1, 0, 7},
		},
		"a100-40": {
			{"1g.5gb", 19, 1, 14, 7, 1, 7, 0, 6}, {"1g.5gb+me", 20, 1, 14, 1, 1, 7, 0, 6}, {"1g.10gb", 15, 1, 14, 4, 2, 4, 0, 7},
			{"2g.10gb", 14, 2, 28, 3, 2, 3, 0, 5}, {"3g.20gb", 9, 3, 42, 2, 4, 2, 0, 7}, {"4g.20gb", 5, 4, 56, 1, 4, 1, 0, 3},
			{"7g.40gb", 0, 7, 98, 1, 8, 1, 0, 7},
		},
		"A30": {
			{"1g.6gb", 14, 1, 14, 4, 1, 4, 0, 3}, {"1g.6gb+me", 21, 1, 14, 1, 1, 4, 0, 3}, {"2g.12gb", 5, 2, 28, 2, 2, 2, 0, 3},
			{"2g.12gb+me", 6, 2, 28, 1, 2, 2, 0, 3}, {"4g.24gb", 0, 4, 56, 1, 4, 1, 0, 3},
		},
	} {
		dev, ok := Model(model)
		if !ok {
			t.Fatalf("no %s", model)
		}
		var got []row
		for _, p := range dev.Profiles {
			last := p.Placements[len(p.Placements)-1]
			got = append(got, row{p.Name, p.ID, p.Compute, p.SMs, p.Max, last.Size, len(p.Placements), p.Placements[0].Start, last.Start + last.Size - 1})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", model, diff)
		}
	}
}

func TestEveryModelIsSane(t *testing.T) {
	for _, name := range Models() {
		dev, ok := Model(name)
		if !ok || dev.MIGCapable != (dev.Slots > 0) || dev.MIGCapable != (len(dev.Profiles) > 0) || dev.MIGEnabled || dev.UUID != "" {
			t.Errorf("%s is %+v", name, dev)
		}
		if dev.MIGReset && dev.GPM || dev.MIGReset != (dev.Capability == "8.0") {
			t.Errorf("%s: GPM and a switch of MIG without reset came together", name)
		}
		ids := map[int]bool{}
		for _, p := range dev.Profiles {
			if ids[p.ID] || p.Memory <= 0 || p.Memory > dev.Memory || p.SMs <= 0 || p.SMs > dev.SMs || p.Max < 1 || p.Max > len(p.Placements) {
				t.Errorf("%s has %+v", name, p)
			}
			ids[p.ID] = true
			if slices.ContainsFunc(p.Placements, func(at gpu.Placement) bool { return at.Start < 0 || at.Start+at.Size > dev.Slots }) {
				t.Errorf("%s: %s lies outside of the axis", name, p.Name)
			}
		}
	}
	if _, ok := Model("H300"); ok {
		t.Error("an H300 was found")
	}
}

func TestRTXPro6000HasTwelveSlots(t *testing.T) {
	dev, _ := Model("RTX-PRO-6000")
	want := map[string][]gpu.Placement{
		"1g.24gb": {{Start: 0, Size: 3}, {Start: 3, Size: 3}, {Start: 6, Size: 3}, {Start: 9, Size: 3}},
		"2g.48gb": {{Start: 0, Size: 6}, {Start: 6, Size: 6}},
		"4g.96gb": {{Start: 0, Size: 12}},
	}
	for name, at := range want {
		if p, _ := dev.Profile(name); !cmp.Equal(p.Placements, at) {
			t.Errorf("%s may be at %v", name, p.Placements)
		}
	}
	if dev.Slots != 12 || len(dev.Profiles) != 11 {
		t.Errorf("%d slots, %d profiles", dev.Slots, len(dev.Profiles))
	}
}

// The numbers are those that nvidia-smi shows on an A100: 3g at 4 is instance 1, at 0 it is 2, seven 1g are 7 to 9 and
// 11 to 14.
func TestInstanceNumbers(t *testing.T) {
	for at, want := range map[gpu.Placement]int{
		{Start: 0, Size: 8}: 0, {Start: 4, Size: 4}: 1, {Start: 0, Size: 4}: 2, {Start: 4, Size: 2}: 3, {Start: 0, Size: 2}: 5, {Start: 2, Size: 2}: 6,
		{Start: 4, Size: 1}: 7, {Start: 6, Size: 1}: 9, {Start: 0, Size: 1}: 11, {Start: 3, Size: 1}: 14,
	} {
		if got := giOf(8, at); got != want {
			t.Errorf("%v is instance %d, not %d", at, got, want)
		}
	}
}

func TestInstanceNumbersAreUnique(t *testing.T) {
	for _, name := range Models() {
		dev, _ := Model(name)
		seen := map[int]gpu.Placement{}
		for _, p := range dev.Profiles {
			for _, at := range p.Placements {
				gi := giOf(dev.Slots, at)
				if other, there := seen[gi]; there && other != at || gi < 0 || gi > 14 {
					t.Errorf("%s: %v and %v are both %d", name, at, other, gi)
				}
				seen[gi] = at
			}
		}
	}
}

func TestCapsAreCountedAsTheKernelModuleDoes(t *testing.T) {
	if diff := cmp.Diff([]int{12, 13}, capsOf(0, 1, 0)); diff != "" { // gpu0/gi1/access 12
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{138}, capsOf(1, 0, -1)); diff != "" {
		t.Error(diff)
	}
}
