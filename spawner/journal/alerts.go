package journal

import (
	"slices"

	"slipway/spawner"
)

// Alerts are those of the present launch.
type Alerts struct {
	Launch string
	Kills  int64          // processes that were killed for want of memory, as far as they were told
	Over   *spawner.Alert // for which it is to end; nil: it may go on
	List   []spawner.Alert
}

// Of returns those of a launch, empty ones when it is another.
func (a *Alerts) Of(launch string) *Alerts {
	if a.Launch != launch {
		*a = Alerts{Launch: launch}
	}
	return a
}

// Put has an alert take the place of the one with its cause.
func (a *Alerts) Put(one spawner.Alert) {
	a.List = append(
		slices.DeleteFunc(slices.Clone(a.List), func(o spawner.Alert) bool { return o.Cause == one.Cause }), one,
	)
}
