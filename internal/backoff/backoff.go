// Package backoff says how long to wait before something that failed is tried again: twice as long after each failure,
// up to a limit, and by chance up to half of it sooner, so that what failed together is not tried again together.
//
// It is for what is tried until it succeeds or its context ends. What looks for a change at a steady pace, or has to be
// done within a time, waits by itself. It must not judge errors: which are worth another try, the caller knows.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"

	"slipway/internal/clock"
)

// Backoff counts the failures in a row of one thing. It is not safe for concurrent use.
type Backoff struct {
	First time.Duration // the wait after one failure
	Most  time.Duration // the longest wait

	failures int
}

// Next counts a failure and returns how long to wait.
func (b *Backoff) Next() time.Duration {
	b.failures++
	return Delay(b.First, b.Most, b.failures, rand.Float64())
}

// Wait counts a failure and waits. It reports whether ctx goes on.
func (b *Backoff) Wait(ctx context.Context) bool { return clock.Sleep(ctx, b.Next()) }

// Reset forgets the failures: there was a success.
func (b *Backoff) Reset() { b.failures = 0 }

// Delay returns how long to wait after so many failures in a row. Chance is in [0, 1); who wants the same wait each time
// that it is asked for chooses it.
func Delay(first, most time.Duration, failures int, chance float64) time.Duration {
	d := min(first<<min(max(failures-1, 0), 16), most)
	return d/2 + time.Duration(chance*float64(d)/2)
}
