package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// Leases returns who holds what of the GPUs, in a lasting order.
func (r *Records) Leases() []gpu.Lease {
	v := r.View()
	defer v.End()
	return r.sched.Leases()
}

// GPUsChanged has those who wait looked at: a GPU may have come back, or gone.
func (r *Records) GPUsChanged() {
	v := r.View()
	defer v.End()
	v.wakeHeads()
}

// InGroup says in a request with whom a user shares a GPU that keeps nobody apart.
func (m *Manager) InGroup(r gpu.Request, hub string, user spawner.User) gpu.Request {
	if r.Mode != gpu.Shared {
		return r
	}
	if r.Group = ""; m.cfg.Group != nil {
		r.Group = m.cfg.Group(hub, user)
	}
	if r.Group == "" {
		r.Group = fmt.Sprintf("%s of %s", user, hub)
	}
	return r
}

// dispute ends leases that were saved though the store said they were not, as one may that fails in the middle:
// somebody else has got the place meanwhile. Nothing was done for a workload that is only Leased, so it goes back in
// line; the youngest first.
func (tx Tx) dispute(ctx context.Context) error {
	var leased []*Entry
	for _, e := range tx.r.work {
		if e.Phase == spawner.Leased && e.Slice != nil {
			leased = append(leased, e)
		}
	}
	slices.SortFunc(
		leased, func(a, b *Entry) int { return cmp.Or(cmp.Compare(b.Turn, a.Turn), cmp.Compare(b.ID, a.ID)) },
	)
	for _, e := range leased {
		if !tx.r.sched.Disputed(e.ID) {
			continue
		}
		tx.r.log.Warn(
			"a lease is given up: the store has it though another has the place", "id", e.ID, "slice", e.Slice,
		)
		if err := tx.Change(ctx, e, func(e *Entry) { e.Phase, e.Slice, e.Lender = spawner.Pending, nil, "" }); err != nil {
			return err
		}
	}
	return nil
}
