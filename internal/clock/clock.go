// Package clock waits, compares times, and says whether the clock of this host is believed. It promises that a wait
// ends with its context. It must not grow into policies of when to try again: those are internal/backoff's.
package clock

import (
	"context"
	"time"
)

// Sleep waits so long, and reports whether ctx goes on.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// Latest returns the latest of some times.
func Latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}
