package engine

import (
	"time"

	"slipway/spawner"
	"slipway/spawner/culling"
	"slipway/spawner/lifecycle"
)

// InBackoff reports whether a job waits before it is tried again.
func (e *Entry) InBackoff() bool {
	return e.BackingOff && e.Phase == spawner.Pending && e.Want == spawner.WantRunning
}

// NextTry makes e, which has ended, one that waits in line for its next try.
func (e *Entry) NextTry() {
	e.Attempts = lifecycle.PastTries(e.Workload)
	e.Attempt++
	e.toLine()
	e.Outcome, e.Moves, e.Evictions, e.Bad, e.Held, e.Withdrawn, e.BackingOff = nil, 0, 0, nil, false, false, false
	e.Started, e.Asked, e.Saved = time.Now(), time.Time{}, false
	e.Seen, e.startedAt, e.quit, e.blindly, e.fetched = spawner.Observation{}, time.Time{}, time.Time{}, time.Time{}, fetched{}
	e.parting, e.Hindrance, e.Keeping, e.Pulse = "", "", Attempts{}, culling.Pulse{}
}
