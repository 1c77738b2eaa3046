package spawner

import "time"

// PlannedStop is when and why a running session will be stopped if nothing goes on in it. The zero PlannedStop: never.
type PlannedStop struct {
	At      time.Time
	Why     string // such as "idle for 50 min of at most 1 h"
	Known   bool   // what goes on in it was seen lately; else it is not stopped for being idle
	Idle    bool   // it would be stopped for being idle: any activity postpones that
	CanKeep bool   // its user may postpone it
	MaxKeep time.Duration
	Warning time.Duration // how long before then its user is told
	// LastCall is how long before then its user is told once more; zero: they are not.
	LastCall time.Duration
}
