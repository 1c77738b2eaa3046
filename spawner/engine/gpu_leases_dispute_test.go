package engine

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"testing"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// recordsOf is a store that holds some records.
type recordsOf map[spawner.ID]spawner.Workload

func (s recordsOf) Put(_ context.Context, _, key string, value any) error {
	s[spawner.ID(key)] = value.(spawner.Workload)
	return nil
}

func (s recordsOf) Delete(context.Context, string, string) error { return nil }

func (s recordsOf) PutAll(context.Context, string, map[string]any) error { return nil }

func (s recordsOf) Sync(context.Context) error { return nil }

func (s recordsOf) All(context.Context, string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for id, w := range s {
			text, err := json.Marshal(w)
			if !yield(Record{Key: string(id), Value: text}, err) {
				return
			}
		}
	}
}

// TestDisputedLease: a lease that the store kept though it said it had not is given up when another has the place
// meanwhile.
func TestDisputedLease(t *testing.T) {
	slice := func(mode gpu.Mode, start, size int) *gpu.Slice {
		return &gpu.Slice{GPU: "GPU-1", Mode: mode, Placement: gpu.Placement{Start: start, Size: size}}
	}
	with := func(id spawner.ID, phase spawner.Phase, turn int64, s *gpu.Slice, lender spawner.ID) spawner.Workload {
		return spawner.Workload{ID: id, Phase: phase, Want: spawner.WantRunning, Turn: turn, LeaseRecord: spawner.LeaseRecord{Slice: s, Lender: lender}}
	}
	for _, tt := range []struct {
		name string
		all  []spawner.Workload
		want []spawner.ID // that have a slice afterwards
	}{
		{"nobody else has it", []spawner.Workload{with("s-1", spawner.Leased, 1, slice(gpu.MIG, 0, 1), ""), with("s-2", spawner.Running, 2, slice(gpu.MIG, 1, 1), "")}, []spawner.ID{"s-1", "s-2"}},
		{"one that runs has it", []spawner.Workload{with("s-1", spawner.Leased, 1, slice(gpu.MIG, 0, 1), ""), with("s-2", spawner.Running, 2, slice(gpu.MIG, 0, 1), "")}, []spawner.ID{"s-2"}},
		{"a larger part lies over it", []spawner.Workload{with("s-1", spawner.Leased, 1, slice(gpu.MIG, 2, 1), ""), with("s-2", spawner.Starting, 2, slice(gpu.MIG, 0, 4), "")}, []spawner.ID{"s-2"}},
		{"both are leased", []spawner.Workload{with("s-1", spawner.Leased, 1, slice(gpu.Whole, 0, 0), ""), with("s-2", spawner.Leased, 2, slice(gpu.Whole, 0, 0), "")}, []spawner.ID{"s-1"}},
		{"it is lent", []spawner.Workload{with("s-1", spawner.Running, 1, slice(gpu.MIG, 0, 1), ""), with("j-1", spawner.Leased, 2, slice(gpu.MIG, 0, 1), "s-1")}, []spawner.ID{"s-1", "j-1"}},
		{"it is lent twice", []spawner.Workload{
			with("s-1", spawner.Running, 1, slice(gpu.MIG, 0, 1), ""), with("j-1", spawner.Leased, 2, slice(gpu.MIG, 0, 1), "s-1"), with("j-2", spawner.Running, 3, slice(gpu.MIG, 0, 1), "s-1"),
		}, []spawner.ID{"s-1", "j-2"}},
		{"the lender has gone, and it is another's", []spawner.Workload{with("s-2", spawner.Running, 1, slice(gpu.MIG, 0, 1), ""), with("j-1", spawner.Leased, 2, slice(gpu.MIG, 0, 1), "s-1")}, []spawner.ID{"s-2"}},
		{"several share it", []spawner.Workload{with("s-1", spawner.Leased, 1, slice(gpu.Shared, 0, 0), ""), with("s-2", spawner.Running, 2, slice(gpu.Shared, 0, 0), "")}, []spawner.ID{"s-1", "s-2"}},
	} {
		store := recordsOf{}
		for _, w := range tt.all {
			store[w.ID] = w
		}
		m, err := New(t.Context(), Config{Store: store, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		left := map[spawner.ID]bool{}
		for _, id := range tt.want {
			left[id] = true
		}
		for id, e := range m.work {
			if held := e.Slice != nil; held != left[id] || held != (store[id].Slice != nil) || !held && (e.Phase != spawner.Pending || e.Lender != "") {
				t.Errorf("%s: %s is %s and holds %v; the store has %v", tt.name, id, e.Phase, e.Slice, store[id].Slice)
			}
		}
	}
}
