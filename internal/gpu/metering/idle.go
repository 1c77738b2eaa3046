package metering

import (
	"time"
)

// flat is how far memory may move while a slice is called quiet: less than one allocation of the driver.
const flat = 2 << 20

// verdict is what one sample says of whether a slice is used.
type verdict int

const (
	unsure verdict = iota
	busy
	quiet
)

// judge says what a sample means. Without any process a slice is quiet. Otherwise only a figure of its work can say so:
// a list of processes cannot, for a training may keep its memory as still as a kernel that waits.
func judge(s sample, busySM float64) verdict {
	switch {
	case s.busiest >= busySM:
		return busy
	case s.processes == 0:
		return quiet
	case s.busiest < 0 || s.memory < 0:
		return unsure
	default:
		return quiet
	}
}

// none is the memory to compare with of a slice without processes.
const none int64 = -2

// watch remembers since when a slice has been quiet.
type watch struct {
	since  time.Time // zero: it is not
	last   time.Time // of the last sample that said anything
	memory int64     // when the quiet began
	scope  scope
	known  bool // the last sample said something
}

// note takes a sample. A slice stays quiet over a gap that is no longer than gap; after a longer one nothing is known
// of the time between, and it begins anew.
func (w *watch) note(at time.Time, s sample, busySM float64, gap time.Duration) {
	v := judge(s, busySM)
	if w.known = v != unsure; !w.known {
		return
	}
	apart := at.Sub(w.last)
	missed := !w.last.IsZero() && (apart > gap || apart < 0)
	w.last = at
	if v == busy {
		w.since = time.Time{}
		return
	}
	memory := s.memory
	if s.processes == 0 {
		memory = none
	}
	switch {
	case w.since.IsZero() || missed || w.scope == s.scope && w.moved(memory):
		w.since, w.memory = at, memory
	case w.scope != s.scope || memory == none:
		w.memory = memory
	}
	w.scope = s.scope
}

// moved reports whether memory is not what it was when the quiet began: a process came, or took or gave back some. That
// all processes went is no work.
func (w *watch) moved(memory int64) bool {
	if memory == none {
		return false
	}
	return w.memory == none || memory-w.memory > flat || w.memory-memory > flat
}

// idle says since when a slice has been quiet, if that is long enough; known is whether anybody can say.
func (w *watch) idle(now time.Time, after, gap time.Duration) (since time.Time, known bool) {
	if !w.known || now.Sub(w.last) > gap {
		return time.Time{}, false
	}
	if w.since.IsZero() || now.Sub(w.since) < after {
		return time.Time{}, true
	}
	return w.since, true
}
