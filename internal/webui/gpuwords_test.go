package webui

import (
	"strings"
	"testing"

	"slipway/internal/gpu"
)

func TestSliceWords(t *testing.T) {
	inv := inventory()
	inv.GPUs[1].Device.Name = "NVIDIA A30"
	for asked, want := range map[string]string{
		"1g.18gb":     "1g.18gb: 1/7 of an NVIDIA H200, 16 GiB of its memory",
		"7g.141gb":    "7g.141gb: an NVIDIA H200, 140 GiB of its memory",
		"1g.18gb+me":  "1g.18gb+me: 1/7 of an NVIDIA H200, 16 GiB of its memory, with a media engine",
		"1g":          "1g: 1/7 of an NVIDIA H200, 16 GiB of its memory, or 1/4 of an NVIDIA A30, 6 GiB of its memory",
		"2g.20gb":     "2g.20gb",
		"mps:25%/20G": "mps:25%/20G: at most 25 % of the processors of an NVIDIA H200, 20 GiB of its memory",
		"shared":      "shared: turns on an NVIDIA L4, the memory shared too",
		"shared/10G":  "shared/10G: turns on an NVIDIA L4, at most 10 GiB of its memory",
		"whole":       "whole: an NVIDIA H200 to yourself, 140 GiB of memory",
	} {
		r, err := gpu.ParseRequest(asked)
		if err != nil {
			t.Fatal(err)
		}
		if got := sliceWords(r, inv); got != want {
			t.Errorf("%s: %q", asked, got)
		}
	}
	if got := sliceWords(gpu.Request{Mode: gpu.MIG, Profile: "1g", Model: "a30"}, inv); got != "1g: 1/4 of an NVIDIA A30, 6 GiB of its memory" {
		t.Errorf("of a model: %q", got)
	}
	if got := sliceWords(gpu.Request{Mode: gpu.MPS, Percent: 25, Memory: gib, Least: gpu.Cgroup}, inv); got != "mps:25%/1G" {
		t.Errorf("no GPU is safe enough: %q", got)
	}
}

// TestApart: every tier of every mode is explained, and the failure domain of MPS is said wherever there is one.
func TestApart(t *testing.T) {
	for _, m := range gpu.Modes() {
		for _, tier := range gpu.Tiers() {
			a := apartOf(m, tier)
			if a.Word == "" || !strings.HasSuffix(a.Long, ".") {
				t.Errorf("%s, %s: %+v", m, tier, a)
			}
			if shares := m == gpu.MPS && tier != gpu.Hardware; shares != strings.Contains(a.Short, "ends all") {
				t.Errorf("%s, %s: %q", m, tier, a.Short)
			}
		}
		if modeWords(m) == modeWords("") {
			t.Errorf("mode %s has no words", m)
		}
	}
	inv := inventory()
	if got := tierOf(gpu.Request{Mode: gpu.MPS}, inv); got != gpu.Process {
		t.Errorf("MPS: %s", got)
	}
	inv.GPUs[2].Tier = gpu.Cgroup
	if got := tierOf(gpu.Request{Mode: gpu.MPS}, inv); got != gpu.Cgroup {
		t.Errorf("MPS of this site: %s", got)
	}
	if got := tierOf(gpu.Request{Mode: gpu.MPS}, gpu.Inventory{}); got != gpu.Process {
		t.Errorf("MPS of no site: %s", got)
	}
}

// TestUseWords: what was not measured is never a number.
func TestUseWords(t *testing.T) {
	for name, tc := range map[string]struct {
		use                 use
		busy, filled, spent string
		now, most           float64
	}{
		"nothing": {use{Held: gib}, "not measured", "not measured", "", -1, -1},
		"a reason": {use{Use: gpu.Use{Unknown: "its instance is not there"}, Held: gib},
			"not measured: its instance is not there", "not measured: its instance is not there", "", -1, -1},
		"all": {use{Use: gpu.Use{Source: gpu.SourceGPM, SM: ptr(12.5), Memory: ptr(2 * gib), Peak: ptr(9 * gib), Energy: ptr(5400.5)}, Held: 16 * gib},
			"12 % busy in the last minute, by the processors' own counters", "2 GiB now, at most 9 GiB so far, of 16 GiB", "about 1.5 Wh", 12.5, 56.3},
		"zero is a number": {use{Use: gpu.Use{Source: gpu.SourceUtilisation, SM: ptr(0.0), Memory: ptr(int64(0))}, Held: gib},
			"in use for 0 % of the last minute", "0 B now, of 1 GiB", "", 0, -1},
		"a little": {use{Use: gpu.Use{Source: gpu.SourceProcess, SM: ptr(.2), Peak: ptr(gib), Energy: ptr(72_000.0)}},
			"in use by its programs for less than 1 % of the last minute", "at most 1 GiB so far", "about 20 Wh", -1, -1},
		"more than it holds": {use{Use: gpu.Use{Memory: ptr(3 * gib), Energy: ptr(9e6)}, Held: 2 * gib}, "not measured", "3 GiB now, of 2 GiB", "about 2.5 kWh", 100, -1},
	} {
		if got := tc.use.Busy(); got != tc.busy {
			t.Errorf("%s: busy %q", name, got)
		}
		if got := tc.use.Filled(); got != tc.filled {
			t.Errorf("%s: filled %q", name, got)
		}
		if got := tc.use.Spent(); got != tc.spent {
			t.Errorf("%s: spent %q", name, got)
		}
		if tc.use.Now() != tc.now || tc.use.Most() != tc.most {
			t.Errorf("%s: %v now, %v at most", name, tc.use.Now(), tc.use.Most())
		}
	}
}
