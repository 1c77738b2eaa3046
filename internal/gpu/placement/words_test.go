package placement

import (
	"strings"
	"testing"

	"slipway/internal/gpu"
)

func TestRefusalsSayWhatWouldHelp(t *testing.T) {
	c := table(t, 8, eight())
	full := cuttable(c, 2)
	full[0].Busy, full[1].Busy = 0xff, 0b11110111
	static := cuttable(c, 1)
	static[0].Static, static[0].Ready = true, []Ready{{"3g.71gb", gpu.Placement{Start: 4, Size: 4}}}
	mps := []Node{{Model: "NVIDIA L40S", Mode: gpu.MPS, Tier: gpu.Process, Memory: 48 << 30, AtOnce: 8, Held: 1, PercentHeld: 75, MemoryHeld: 20 << 30}}
	equal := []Node{{Model: "NVIDIA L40S", Mode: gpu.MPS, Tier: gpu.Process, Memory: 48 << 30, AtOnce: 8, EqualShares: true}}
	equal[0].Take(gpu.Slice{Mode: gpu.MPS, Percent: 50, Memory: 10 << 30})
	shared := []Node{{Model: "NVIDIA L40S", Mode: gpu.Shared, Tier: gpu.None, Memory: 48 << 30, AtOnce: 4}}
	others := []Node{shared[0]}
	others[0].Take(gpu.Slice{Mode: gpu.Shared, Group: "top", Memory: 1 << 30})
	whole := []Node{{Model: "NVIDIA A100", Mode: gpu.Whole, Tier: gpu.Hardware, Held: 1}}
	for _, tt := range []struct {
		nodes   []Node
		request string
		change  func(*gpu.Request)
		never   bool
		want    string
	}{
		{nil, "whole", nil, true, "whole asked, and there is no GPU that may be used"},
		{full, "", nil, true, "no GPU asked"},
		{full, "2g.35gb", nil, false, "2g.35gb asked, 0 of 6 free; free now: 1g.18gb"},
		{full, "whole", nil, true, "whole asked, and no GPU is given out whole; there is mig"},
		{whole, "1g", nil, true, "1g asked, and no GPU is cut into MIG instances; there is whole"},
		{whole, "whole", nil, false, "whole asked, 0 of 1 free"},
		{whole, "mps:1%/1G", nil, true, "no GPU is shared by MPS"},
		{whole, "shared", nil, true, "no GPU is shared by time slicing"},
		{full, "1g.10gb", nil, true, "1g.10gb asked, and no GPU is cut so; there is 1g.18gb, 1g.35gb, 2g.35gb, 3g.71gb, 4g.71gb, 7g.141gb"},
		{whole, "any", nil, true, "any asked, and a host's own GPUs are asked for by mode alone"},
		{whole, "whole,memory>=1G", nil, true, "whole,memory>=1G asked, and a host's own GPUs are asked for by mode alone"},
		{static, "1g", nil, true, "1g asked, and no GPU is cut so; there is 3g.71gb"},
		{full, "1g", func(r *gpu.Request) { r.Model = "a100" }, true, `1g asked on "a100", and no GPU for it is one; there is NVIDIA H200`},
		{mps, "mps:50%/10G", nil, false, "mps:50%/10G asked, 0 of 2 free; mps:25%/10G is free now"},
		{mps, "mps:50%/100G", nil, true, "mps:50%/100G asked, and the largest GPU in mode mps has 48 GiB"},
		{mps, "mps:5%/1G", func(r *gpu.Request) { r.Least = gpu.Hardware }, true, "isolation hardware or better, and the GPUs for it have process"},
		{equal, "mps:25%/5G", nil, false, "mps:50%/10G is free now"},
		{others, "shared", nil, false, "shared asked, 0 of 4 free; 1 of 1 GPUs are with other groups"},
		{shared, "shared", func(r *gpu.Request) { r.Least = gpu.Process }, true, "shared asked with isolation process or better, and the GPUs for it have none"},
		{shared, "shared/64G", nil, true, "shared/64G asked, and the largest GPU in mode shared has 48 GiB"},
	} {
		r, err := gpu.ParseRequest(tt.request)
		if err != nil {
			t.Fatal(err)
		}
		r.Group = "higgs"
		if tt.change != nil {
			tt.change(&r)
		}
		i, s, lacks := New(Frag, 0).Place(tt.nodes, r)
		if i != -1 || s != (gpu.Slice{}) || !strings.Contains(lacks, tt.want) {
			t.Errorf("%q: placed on %d, %q, want %q", tt.request, i, lacks, tt.want)
		}
		if never := Never(tt.nodes, r); (never != "") != tt.never {
			t.Errorf("%q: never: %q", tt.request, never)
		}
	}
}

func TestModelsAreFoundInAnyCase(t *testing.T) {
	n := Node{Model: "NVIDIA H200"}
	for part, want := range map[string]bool{"": true, "h200": true, "H200": true, "nvidia": true, "H100": false, "NVIDIA H200 NVL": false} {
		if n.named(part) != want {
			t.Errorf("%q: %v", part, !want)
		}
	}
}
