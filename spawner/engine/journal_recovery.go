package engine

import (
	"time"

	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/journal"
	"slipway/spawner/lifecycle"
)

// recall writes down where a workload of an earlier run of the service stands, and when it came there: its events
// were not saved, and who follows them waits for the last one, which is new to her.
func (tx Tx) recall(e *Entry) {
	if e.Kind.Batch() {
		tx.recallTries(e)
		if e.Phase == spawner.Stopped && !e.Up.IsZero() {
			tx.Note(e, journal.Arrival(e.Workload, 0))
		}
	}
	e.Journal.Begin(time.Now())
	switch {
	case e.Phase == spawner.Stopped:
		last := diagnosis.Farewell(e.Workload)
		if e.Outcome != nil {
			last.Time = e.Outcome.At
		}
		tx.Note(e, last)
	case e.Phase == spawner.Running:
		tx.Note(e, journal.Arrival(e.Workload, 0))
	case e.Phase.Active() && e.Phase != spawner.Stopping:
		tx.Note(e, spawner.Event{Percent: 5, Message: "The service was restarted; it goes on with this start"})
	}
}

// recallTries writes down when a job was submitted, and how each of its tries has ended of which something is
// kept.
func (tx Tx) recallTries(e *Entry) {
	tx.Note(e, spawner.Event{Message: "Submitted to " + tx.r.backends.At(e.Backend), Time: e.Created})
	past := e.Workload
	for i, o := range e.Attempts {
		past.Attempt = e.Attempt - len(e.Attempts) + 1 + i
		past.Attempts = e.Attempts[:i+1]
		tx.Note(e, spawner.Event{Message: lifecycle.TryWords(past), Time: o.At})
	}
}
