package engine

import (
	"context"
	"time"

	"slipway/spawner/diagnosis"
)

// backOff has a workload that a Remote does not take now go back in line.
func (s *starter) backOff(ctx context.Context, e Entry, err error) error {
	s.log.Info(
		"a backend takes no more of a user's workloads now", "id", e.ID, "owner", e.Owner, "backend", e.Backend, "err",
		err,
	)
	return s.postpone(ctx, e, s.backends.At(e.Backend)+" takes no more now: "+diagnosis.Brief(err))
}

// postpone has a workload go back in line that cannot start now, for what keeps the others of its owner from starting
// too. It holds nothing while it waits.
func (s *starter) postpone(ctx context.Context, e Entry, why string) error {
	tx := s.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return nil
	}
	again := s.sched.Refused(e.Workload, why, time.Now())
	s.queue.AddAfter(e.ID, again)
	return tx.Requeue(ctx, now, why, nil)
}

// taken notes that a Remote has taken a workload.
func (tx Tx) taken(e *Entry) {
	if e.Begun = true; tx.r.sched.Taken(e.Workload) {
		tx.wakeHeads()
	}
}
