package placement

import (
	"fmt"
	"testing"

	"slipway/internal/gpu"
)

// profile makes a profile with placements at the given starts.
func profile(name string, compute, size, gb, sms int, starts ...int) gpu.Profile {
	p := gpu.Profile{Name: name, Compute: compute, Memory: int64(gb) << 30, SMs: sms, Max: len(starts)}
	for _, s := range starts {
		p.Placements = append(p.Placements, gpu.Placement{Start: s, Size: size})
	}
	return p
}

func most(n int, p gpu.Profile) gpu.Profile {
	p.Max = n
	return p
}

// eight is a GPU of 8 slots and 7 compute slices, as A100, H100, H200 and B200 are.
func eight() []gpu.Profile {
	return []gpu.Profile{
		profile("1g.18gb", 1, 1, 18, 16, 0, 1, 2, 3, 4, 5, 6),
		profile("1g.35gb", 1, 2, 35, 26, 0, 2, 4, 6),
		profile("2g.35gb", 2, 2, 35, 32, 0, 2, 4),
		profile("3g.71gb", 3, 4, 71, 60, 0, 4),
		profile("4g.71gb", 4, 4, 71, 64, 0),
		profile("7g.141gb", 7, 8, 141, 132, 0),
	}
}

// media has instances with the one media engine too.
func media() []gpu.Profile {
	return append(eight(), most(1, profile("1g.18gb+me", 1, 1, 18, 16, 0, 1, 2, 3, 4, 5, 6)))
}

// four is a GPU of 4 slots, as an A30 is.
func four() []gpu.Profile {
	return []gpu.Profile{
		profile("1g.6gb", 1, 1, 6, 14, 0, 1, 2, 3), most(1, profile("1g.6gb+me", 1, 1, 6, 14, 0, 1, 2, 3)),
		profile("2g.12gb", 2, 2, 12, 28, 0, 2), most(1, profile("2g.12gb+me", 2, 2, 12, 28, 0, 2)),
		profile("4g.24gb", 4, 4, 24, 56, 0),
	}
}

// twelve is a GPU of 12 slots, as an RTX PRO 6000 Blackwell is.
func twelve() []gpu.Profile {
	return []gpu.Profile{
		profile("1g.24gb", 1, 3, 24, 46, 0, 3, 6, 9), most(1, profile("1g.24gb+me", 1, 3, 24, 46, 0, 3, 6, 9)),
		most(1, profile("1g.24gb+me.all", 1, 3, 24, 46, 0, 3, 6, 9)), profile("1g.24gb-me", 1, 3, 24, 46, 0, 3, 6, 9),
		profile("1g.24gb+gfx", 1, 3, 24, 46, 0, 3, 6, 9), profile("2g.48gb", 2, 6, 48, 94, 0, 6), profile("4g.96gb", 4, 12, 96, 188, 0),
	}
}

func table(t testing.TB, slots int, profiles []gpu.Profile) *Table {
	t.Helper()
	c, err := NewTable(slots, profiles)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// cuttable makes empty GPUs of one table.
func cuttable(c *Table, count int) []Node {
	nodes := make([]Node, count)
	for i := range nodes {
		nodes[i] = Node{UUID: fmt.Sprintf("GPU-%d", i), Model: "NVIDIA H200", Mode: gpu.MIG, Tier: gpu.Hardware, Memory: 141 << 30, SMs: 132, Table: c}
	}
	return nodes
}

func mig(profile string) gpu.Request { return gpu.Request{Mode: gpu.MIG, Profile: profile} }
