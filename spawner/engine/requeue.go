package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// mostBad is how many parts of GPUs a start may find bad before it fails: then it is rather the workload that is at
// fault.
const mostBad = 3

// leaveSlice sends a workload that could not run on its slice back in line for another. tested says that the workload's
// own test found so: that is one user's word, and counts as little as a user's word may; see sched.Suspect. Otherwise GPUs has
// it from the driver, and has seen to it that nobody gets the place.
func (s *starter) leaveSlice(ctx context.Context, e Entry, why string, tested bool) error {
	condemn, err := s.leave(ctx, e, why, tested)
	if condemn && err == nil {
		s.gpus.Condemn(*e.Slice, why)
	}
	return err
}

func (s *starter) leave(ctx context.Context, e Entry, why string, tested bool) (condemn bool, err error) {
	tx := s.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil || now.Slice == nil {
		return false, nil
	}
	// What was borrowed may be bad only because its owner is on it too. It is not borrowed again, and nothing else
	// follows.
	bad := spawner.BadPart{Slice: *now.Slice, Why: why, Shun: tested && now.Lender == ""}
	if len(now.Bad) >= mostBad {
		err = tx.Finish(ctx, now, unusable(append(slices.Clone(now.Bad), bad)))
	} else {
		err = tx.Requeue(ctx, now, fmt.Sprintf(
			"%s cannot be used (%s): looking for another", now.Slice, why,
		), func(e *Entry) {
			e.Bad = append(slices.Clone(e.Bad), bad)
		})
	}
	return err == nil && bad.Shun && s.sched.Suspect(bad.Slice, now.Principal(), time.Now()), err
}

// unusable is the outcome of a start that found nothing but bad parts.
func unusable(bad []spawner.BadPart) spawner.Outcome {
	last, count := bad[len(bad)-1], "a part of a GPU"
	if len(bad) > 1 {
		count = fmt.Sprintf("%d parts of GPUs in a row", len(bad))
	}
	return spawner.Outcome{
		Failed: true, ExitCode: 1,
		Reason: fmt.Sprintf("%s could not be used; the last, %s: %s", count, last.Slice, last.Why),
		Remedy: "if your image is not to blame, tell your administrator: `slipway gpus` shows what is quarantined and why",
	}
}

// Requeue ends what runs of a workload and has it go back in line, where it stands before those of its line who
// asked later, or of jobs those of its owner who did. also is what else changes of it; nil: nothing.
func (tx Tx) Requeue(ctx context.Context, e *Entry, message string, also func(*Entry)) error {
	return tx.TakeBack(ctx, e, message, func(e *Entry) {
		if e.Moves++; also != nil {
			also(e)
		}
	})
}

// TakeBack is requeue of what may be the same run afterwards.
func (tx Tx) TakeBack(ctx context.Context, e *Entry, message string, also func(*Entry)) error {
	err := tx.Change(ctx, e, func(e *Entry) {
		e.Phase, e.Moving = spawner.Stopping, true
		also(e)
	})
	if err != nil {
		return err
	}
	e.Interrupt()
	e.Journal.Reopen()
	tx.Note(e, spawner.Event{Percent: 5, Message: message})
	return nil
}

// toLine puts e in line, with nothing of an earlier run. A session has been up all the same: what its start was to tell
// is told.
func (e *Entry) toLine() {
	e.Phase, e.Slice, e.Lender, e.Moving, e.Begun, e.Status = spawner.Pending, nil, "", false, false, control.Status{}
	e.Collecting, e.Host, e.Reported = time.Time{}, "", nil
	if e.Kind.Batch() {
		e.Up = time.Time{}
	}
}
