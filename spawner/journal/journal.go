// Package journal keeps what happens to a workload, for those who follow it, and what its owner is to know of its
// limits.
//
// Promises: the numbers of events grow, over a restart of the service too, how far a launch has come never goes back,
// and what is kept is bounded. It has no clock and no lock of its own, and does no I/O.
package journal

import (
	"fmt"
	"time"

	"slipway/spawner"
)

// eventLimit bounds what is kept for one workload.
const eventLimit = 200

// Journal keeps the events of one workload's current launch. Its owner guards it.
type Journal struct {
	events  []spawner.Event
	last    int64
	launch  string // that the next is of
	percent int    // of the way that this launch has come
}

// Note adds an event, with a number behind that of every other.
func (j *Journal) Note(e spawner.Event) {
	// Milliseconds make the numbers grow over a restart too, so that a reader who resumes gets no old event again.
	j.last = max(j.last+1, e.Time.UnixMilli())
	e.Seq = j.last
	if e.Launch != j.launch {
		j.launch, j.percent = e.Launch, 0
	}
	if e.Percent >= 0 { // who waits sees no step back: what is done once more, or after another try, takes less
		e.Percent = max(e.Percent, j.percent)
		j.percent = e.Percent
	}
	j.events = append(j.events, e)
	if len(j.events) > eventLimit {
		j.events = j.events[len(j.events)-eventLimit:]
	}
}

// Reopen has no event so far be final: what was up begins anew, and who follows it from now on is to read on.
func (j *Journal) Reopen() {
	for i := range j.events {
		j.events[i].Final = false
	}
	if j.percent == 100 {
		j.percent = 0
	}
}

// Latest returns the newest event; the zero one when there is none.
func (j *Journal) Latest() spawner.Event {
	if len(j.events) == 0 {
		return spawner.Event{}
	}
	return j.events[len(j.events)-1]
}

// After returns the events of launch behind seq. A number that has not come yet is of an earlier run of the service,
// whose clock was ahead: then everything may be new.
func (j *Journal) After(seq int64, launch string) []spawner.Event {
	if seq > j.last {
		seq = 0
	}
	var out []spawner.Event
	for _, e := range j.events {
		if e.Seq > seq && e.Launch == launch {
			out = append(out, e)
		}
	}
	return out
}

// Begin has the numbers go on behind a time: those of an earlier run of the service were before it.
func (j *Journal) Begin(at time.Time) { j.last = max(j.last, at.UnixMilli()) }

// Arrival returns the event that tells that a workload has come up. took is how long that took; zero: it is not known.
func Arrival(w spawner.Workload, took time.Duration) spawner.Event {
	if w.Kind.Batch() {
		return spawner.Event{Percent: 50, Message: "The job runs", Time: w.Up}
	}
	words := w.Kind.Title() + " is ready"
	if took > 0 {
		words += fmt.Sprintf(" (%.1f s)", took.Seconds())
	}
	return spawner.Event{Percent: 100, Message: words, Final: true}
}
