package engine

import (
	"context"
	"iter"

	"slipway/spawner"
)

// eventLimit bounds what is kept for one workload.
const eventLimit = 200

// journal keeps the events of one workload's current launch. The Manager's lock guards it.
type journal struct {
	events  []spawner.Event
	last    int64
	launch  string // that the next is of
	percent int    // of the way that this launch has come
}

func (j *journal) note(e spawner.Event) {
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

// reopen has no event so far be final: what was up begins anew, and who follows it from now on is to read on.
func (j *journal) reopen() {
	for i := range j.events {
		j.events[i].Final = false
	}
	if j.percent == 100 {
		j.percent = 0
	}
}

// latest returns the newest event; the zero one when there is none.
func (j *journal) latest() spawner.Event {
	if len(j.events) == 0 {
		return spawner.Event{}
	}
	return j.events[len(j.events)-1]
}

// after returns the events of launch behind seq. A number that has not come yet is of an earlier run of the service,
// whose clock was ahead: then everything may be new.
func (j *journal) after(seq int64, launch string) []spawner.Event {
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

// Events returns what happens to one launch of a workload, the current one when launch is empty: from behind the number
// after on, as it happens. It ends behind a final event, when another launch has taken the place of this one, and with
// ctx.
func (m *Manager) Events(ctx context.Context, c spawner.Caller, id spawner.ID, launch string, after int64) (iter.Seq[spawner.Event], error) {
	w, err := m.Get(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if launch == "" {
		launch = w.Launch
	}
	return func(yield func(spawner.Event) bool) {
		for {
			events, changed := m.eventsAfter(id, launch, after)
			for _, e := range events {
				after = e.Seq
				if !yield(e) || e.Final {
					return
				}
			}
			if changed == nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}, nil
}

// eventsAfter returns the events and a channel that closes at the next change; nil when there will be no more of this
// launch.
func (m *Manager) eventsAfter(id spawner.ID, launch string, after int64) ([]spawner.Event, <-chan struct{}) {
	v := m.View()
	defer v.End()
	e := m.work[id]
	switch {
	case e == nil:
		return nil, nil
	case e.Launch != launch:
		return e.journal.after(after, launch), nil
	default:
		return e.journal.after(after, launch), e.changed
	}
}
