package poolview

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/internal/gpu"
)

// TestLedgerBesideThePool has what the service and the pool say of the same GPUs be told side by side, and what does
// not go together named.
func TestLedgerBesideThePool(t *testing.T) {
	soon := time.Unix(1, 0)
	of := func(uuid string, c gpu.Condition, parts ...gpu.SliceState) gpu.State {
		return gpu.State{Device: gpu.Device{UUID: uuid, Name: "NVIDIA H200"}, Condition: c, Slices: parts}
	}
	cut := of("GPU-cut-x", gpu.Ready,
		gpu.SliceState{UUID: "MIG-1", Slice: gpu.Slice{Profile: "1g.18gb"}, Holder: "s-1"},
		gpu.SliceState{UUID: "MIG-2", Slice: gpu.Slice{Profile: "1g.18gb"}},
		gpu.SliceState{UUID: "MIG-3", Slice: gpu.Slice{Profile: "1g.18gb"}, Quarantined: &soon},
		gpu.SliceState{Holder: "s-2"})
	cut.Device.MIGEnabled = true
	inv := gpu.Inventory{GPUs: []gpu.State{
		of("GPU-a-1", gpu.Ready), of("GPU-b-1", gpu.Ready, gpu.SliceState{Holder: "s-3"}), of("GPU-c-1", gpu.Ready),
		of("GPU-d-1", gpu.Drained),
		of("GPU-e-1", gpu.Ready, gpu.SliceState{Holder: "s-4", Lent: "j-1"}), cut,
	}}
	free := map[string]int{"GPU-a": 1, "GPU-b": 1, "GPU-c": 0, "GPU-d": 1, "GPU-e": 0, "MIG-1": 0, "MIG-2": 1}
	mig := "NVIDIA H200 MIG 1g.18gb"
	want := []hubapi.PoolOwn{
		{ID: "GPU-a", Model: "NVIDIA H200", Ledger: "free", Pool: "free"},
		{
			ID: "GPU-b", Model: "NVIDIA H200", Ledger: "held", Pool: "free",
			Remark: "the service has given it away, and the pool offers it too",
		},
		{
			ID: "GPU-c", Model: "NVIDIA H200", Ledger: "free", Pool: "used",
			Remark: "the pool has given it away, and the service offers it too",
		},
		{
			ID: "GPU-d", Model: "NVIDIA H200", Ledger: "drained", Pool: "free",
			Remark: "the service does not give it out (drained), and the pool offers it",
		},
		{
			ID: "GPU-e", Model: "NVIDIA H200", Ledger: "lent", Pool: "used",
			Remark: "the service and the pool have both given it away",
		},
		{
			ID: "MIG-1", Model: mig, Ledger: "held", Pool: "used",
			Remark: "the service and the pool have both given it away",
		},
		{ID: "MIG-2", Model: mig, Ledger: "free", Pool: "free"},
		{ID: "MIG-3", Model: mig, Ledger: "drained", Pool: "absent"},
	}
	if diff := cmp.Diff(want, beside(inv, free)); diff != "" {
		t.Error(diff)
	}
	if got := beside(inv, map[string]int{"GPU-elsewhere": 1}); len(got) != 0 {
		t.Errorf("a pool that has none of them: %v", got)
	}
}
