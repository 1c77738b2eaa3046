package engine

import (
	"context"
	"fmt"

	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/place"
	"slipway/spawner/sched"
)

// lease takes the workload's resources, when it is its turn and they are free: to save the phase is to take the lease.
func (s *starter) lease(ctx context.Context, e Entry) error {
	tx := s.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return nil
	}
	if why := s.sched.NeverFits(now.Backend, now.Spec.Resources); why != "" { // the site has become smaller meanwhile
		return tx.Finish(ctx, now, spawner.Outcome{
			Failed: true, ExitCode: 1, Reason: "this can never start here: " + why, Remedy: "ask for less",
		})
	}
	if err := s.sched.CheckGPU(now.LocalGPU()); err != nil {
		return tx.Finish(ctx, now, diagnosis.FromError(err))
	}
	q, g := s.sched.Turn(&now.Workload)
	if s.sched.Spent(&now.Workload, q) {
		return tx.Finish(ctx, now, unusable(now.Bad))
	}
	if why := q.String(); why != "" {
		if s.sched.IsHead(&now.Workload) {
			tx.giveWay(ctx, now)
		}
		if now.Journal.Latest().Message != why {
			tx.Note(now, spawner.Event{Percent: 5, Message: why})
		}
		return nil
	}
	err := tx.Change(ctx, now, func(e *Entry) { e.Phase, e.Slice, e.Lender = spawner.Leased, g.Slice, g.Lender })
	if err == nil {
		s.sched.Sent(now.Workload)
		tx.Note(now, spawner.Event{Percent: 10, Message: s.leased(now)})
	}
	return err
}

// leased says in words what a workload holds now, or asks for.
func (s *starter) leased(e *Entry) string {
	return place.Of(&e.Workload).Leased(&e.Workload, s.backends.At(e.Backend), fmt.Sprintf(
		"%s and %s of memory", sched.FormatCPUs(e.Spec.Resources.CPUs), units.MemoryWords(e.Spec.Resources.Memory),
	))
}
