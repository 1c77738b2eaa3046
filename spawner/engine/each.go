package engine

import (
	"context"
	"iter"
	"slices"

	"slipway/spawner"
)

// Each has each look at the workloads that the caller may see: the points of a scan in their order or, without one, all
// in no order. Jobs that are being removed are left out: for who has removed them they are gone. What it looks at is
// not copied, for there may be very many: each must be quick, must change and keep nothing of it, and must not ask the
// Manager anything.
func (r *Records) Each(_ context.Context, c spawner.Caller, scan string, each func(w *spawner.Workload)) error {
	v := r.View()
	defer v.End()
	found := false
	for e := range v.among(c, scan) {
		if c.May(e.Workload) && !(e.Kind.Batch() && e.Want == spawner.WantGone) {
			found = true
			each(&e.Workload)
		}
	}
	if !found && scan != "" {
		return r.tombstones.NoScan(c, scan)
	}
	return nil
}

func (v View) among(c spawner.Caller, scan string) iter.Seq[*Entry] {
	if scan != "" {
		return slices.Values(v.r.index.scans[scan])
	}
	return v.visible(c)
}
