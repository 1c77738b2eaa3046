package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/spawner"
)

// MostAttempts is how many ends of earlier tries, and requests for them, a job's record keeps.
const MostAttempts = 10

// WillRetry reports whether a job that is being ended is tried once more by itself. What its owner or the service has
// ended, what waited in vain for another, and what would fail in the same way again, is not.
func WillRetry(w spawner.Workload) bool {
	return w.Want == spawner.WantRunning && hasTriesLeft(w) && !lastingFailure(*w.Outcome)
}

// hasTriesLeft reports whether a job that is being ended has failed and has tries left.
func hasTriesLeft(w spawner.Workload) bool {
	o := w.Outcome
	if w.Kind.Session() || w.Phase != spawner.Stopping || o == nil || !o.Failed || o.Canceled {
		return false
	}
	return o.Cause != spawner.CauseDependency && o.Cause != spawner.CauseCanceled && w.Attempt < w.Spec.Retries
}

// lastingFailure reports whether what a job has failed for is the same at every try: what it runs or where it runs has
// to be changed first. Not so what an exit code alone tells, nor what is the fault of a host.
func lastingFailure(o spawner.Outcome) bool {
	return o.Cause == spawner.CauseModule || o.Cause == spawner.CauseOutput
}

// GiveUp says of the end of a job that it was not tried again though it had tries left.
func GiveUp(o *spawner.Outcome, w spawner.Workload) {
	if hasTriesLeft(w) && lastingFailure(*o) {
		o.Remedy = strings.TrimSuffix("it was not tried again, which would not help; "+o.Remedy, "; ")
	}
}

// mostRest is how long a job waits at most before it is tried again by itself.
const mostRest = 5 * time.Minute

// PauseBefore returns how long a job waits for its next try when so many have ended: first after the first one, then
// three times as long each time.
func PauseBefore(tries int, first time.Duration) time.Duration {
	pause := first
	for ; tries > 1 && pause < mostRest; tries-- {
		pause *= 3
	}
	return min(pause, mostRest)
}

// PastTries returns how the tries of a job have ended, this one last.
func PastTries(w spawner.Workload) []spawner.Outcome {
	past := slices.Clone(w.Attempts)
	if w.Outcome != nil {
		o := *w.Outcome
		o.Tail = ""
		past = append(past, o)
	}
	return past[max(0, len(past)-MostAttempts):]
}

// TryWords says which try of a job this is: "Try 2 of 3: the one before failed: ...".
func TryWords(w spawner.Workload) string {
	text := fmt.Sprintf("Try %d", w.Attempt+1)
	if w.Attempt <= w.Spec.Retries {
		text += fmt.Sprintf(" of %d", w.Spec.Retries+1)
	}
	if len(w.Attempts) == 0 {
		return text
	}
	switch last := w.Attempts[len(w.Attempts)-1]; {
	case last.Canceled:
		return text + ": the one before was canceled"
	case last.Failed:
		return text + ": the one before failed: " + last.Reason
	default:
		return text + ": the one before was done"
	}
}
