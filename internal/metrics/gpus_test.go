package metrics

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
	"slipway/spawner"
)

var update = flag.Bool("update", false, "write the golden file anew")

// fleet is one GPU in each mode, the last one lost.
func fleet() gpu.Inventory {
	now, sm, low, memory := time.Now(), 40.0, 0.5, int64(9)<<30
	state := func(i int, m gpu.Mode, t gpu.Tier, offers []gpu.Offer, parts ...gpu.SliceState) gpu.State {
		return gpu.State{
			// the beginning of the UUID is not always told apart
			Device: gpu.Device{Index: i, UUID: "GPU-5368a050-" + string(m), Name: "NVIDIA H200", Memory: 141 << 30, ECC: i == 0},
			Mode:   m, Tier: t, Condition: gpu.Ready, Offers: offers, Slices: parts,
		}
	}
	held := func(profile, holder string, u gpu.Use) gpu.SliceState {
		return gpu.SliceState{Slice: gpu.Slice{Profile: profile, Name: profile}, Holder: holder, Use: u}
	}
	whole := state(0, gpu.Whole, gpu.Hardware, []gpu.Offer{{Name: "whole", Free: 0, Most: 1}},
		held("whole", "secret-1", gpu.Use{Source: gpu.SourceUtilisation, SM: &low, Memory: &memory, Idle: &now}))
	whole.Reading = &gpu.Reading{Utilisation: 0.5, SM: -1, MemoryUsed: 9 << 30, Energy: 123_456, Power: 70_500, Temperature: 31}
	whole.Health = &gpu.Health{}

	lent := held("3g.71gb", "secret-2", gpu.Use{Source: gpu.SourceProcessList, Memory: &memory, Unknown: "no GPM"})
	lent.Lent = "secret-job"
	foreign, sick := held("1g.18gb", "", gpu.Use{}), held("1g.18gb", "", gpu.Use{})
	foreign.Foreign, sick.Quarantined = true, &now
	mig := state(1, gpu.MIG, gpu.Hardware, []gpu.Offer{{Name: "1g.18gb", Free: 1, Most: 7}, {Name: "3g.71gb", Free: 0, Most: 2}},
		lent, foreign, sick, held("1g.18gb", "", gpu.Use{}))
	mig.Reading = &gpu.Reading{Utilisation: -1, SM: -1, MemoryUsed: 9 << 30, Energy: -1, Power: -1, Temperature: -1}

	mps := state(2, gpu.MPS, gpu.Process, []gpu.Offer{{Name: "mps:50%/60G", Free: 1, Most: 2}, {Name: "mps:25%/20G", Free: 3, Most: 4}},
		held("mps:13%/17G", "secret-3", gpu.Use{Source: gpu.SourceProcess, SM: &sm}), held("mps:14%/19G", "secret-4", gpu.Use{Source: gpu.SourceProcess, SM: &low}))
	lost := state(3, gpu.Shared, gpu.None, nil, held("shared", "secret-5", gpu.Use{Unknown: "lost"}))
	lost.Condition, lost.Health = gpu.Gone, &gpu.Health{Lost: true}
	return gpu.Inventory{GPUs: []gpu.State{whole, mig, mps, lost}}
}

func TestGPUs(t *testing.T) {
	inv := fleet()
	m := New(Config{Stats: func() spawner.Stats { return spawner.Stats{} }, GPUs: func() gpu.Inventory { return inv }})
	var lines []string
	for line := range strings.Lines(scrape(m)) {
		if strings.Contains(line, "slipway_gpu_") {
			lines = append(lines, line)
		}
	}
	got := strings.Join(lines, "")
	if *update {
		if err := os.WriteFile("testdata/gpus.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/gpus.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(got, "secret") || strings.Contains(got, "17G") {
		t.Error("a label names a workload, or what a user chose")
	}
	inv = gpu.Inventory{Problem: "the helper has ended"}
	if got := scrape(m); !strings.Contains(got, "slipway_gpu_driver_up 0\n") {
		t.Error("a driver that cannot be asked is up")
	}
}
