package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// TestBorrowersAreFound: whatever comes and goes in whatever order, the book knows who has borrowed from whom as a
// search of all of it would.
func TestBorrowersAreFound(t *testing.T) {
	b, random := sliceBook{}, rand.New(rand.NewPCG(1, 2))
	at := func(place int) *gpu.Slice {
		return &gpu.Slice{GPU: "GPU-1", Mode: gpu.MIG, Placement: gpu.Placement{Start: place, Size: 1}}
	}
	for step := range 20_000 {
		session, job, place := spawner.ID(fmt.Sprint("s-", random.IntN(4))), spawner.ID(fmt.Sprint("j-", random.IntN(4))), random.IntN(3)
		switch random.IntN(4) {
		case 0:
			b.enter(spawner.Workload{ID: session, LeaseRecord: spawner.LeaseRecord{Slice: at(place)}})
		case 1:
			if b.borrower(session) == "" { // as the engine sees to
				b.enter(spawner.Workload{ID: job, LeaseRecord: spawner.LeaseRecord{Slice: at(place), Lender: session}})
			}
		case 2:
			b.remove(session)
		default:
			b.remove(job)
		}
		for id := range b {
			if id.OfJob() {
				continue
			}
			found := map[spawner.ID]bool{}
			for borrower, e := range b {
				if e.lender == id && b.lent(e) {
					found[borrower] = true
				}
			}
			if got := b.borrower(id); got == "" && len(found) > 0 || got != "" && !found[got] {
				t.Fatalf("step %d: %q has borrowed from %s, says the book; in truth %v", step, got, id, found)
			}
		}
	}
}
