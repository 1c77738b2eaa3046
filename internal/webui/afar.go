package webui

import (
	"strings"

	"slipway/spawner"
)

// heldThere reports whether a batch system holds it: also one that has begun to run.
func (r row) heldThere() bool {
	return r.Phase.Active() && r.Want == spawner.WantRunning && strings.HasPrefix(r.Detail, spawner.HeldAt)
}

// waits reports whether it has not begun, and is meant to.
func (r row) waits() bool {
	return !r.standsBy() && r.Want == spawner.WantRunning && (r.Phase == spawner.Pending ||
		r.Phase == spawner.Starting && r.Detail != "")
}

// CanAsk reports whether there is something to explain of why it does not run.
func (r row) CanAsk() bool { return r.waits() || r.heldThere() }

// CanHold reports whether it is a job that can be held.
func (r row) CanHold() bool { return r.IsJob() && r.waits() && !r.Workload.Held }

// CanRelease reports whether it is a job that its owner or a batch system holds.
func (r row) CanRelease() bool { return r.IsJob() && (r.waits() && r.Workload.Held || r.heldThere()) }

// CanRequeue reports whether it is a job that runs.
func (r row) CanRequeue() bool {
	return r.IsJob() && r.Phase == spawner.Running && r.CanStop() && !r.heldThere()
}

// Dormant reports whether it is a session that has given its slot in a batch system back because nobody used it.
func (r row) Dormant() bool {
	return !r.IsJob() && !r.IsKernel() && r.Remote && r.Phase == spawner.Stopped && r.Want != spawner.WantGone &&
		r.Outcome != nil && r.Outcome.Expired
}

// HomeApart reports whether it is a session with a home of its own, because the hosts of its backend have no other.
func (r row) HomeApart() bool {
	return !r.IsJob() && !r.IsKernel() && r.Catalogue.HomesApart[r.Backend]
}

// Evicted says how often its place was taken away; empty: never.
func (r row) Evicted() string {
	if r.Evictions == 0 {
		return ""
	}
	return times(r.Evictions)
}

// Lost says what a session has lost when its place was taken away, and what it began anew from.
func (r row) Lost() string {
	switch {
	case r.IsJob():
		return "It began anew each time: what it had not written to the home or elsewhere outside is lost."
	case r.IsKernel():
		return "It began anew each time: what it had in memory is lost."
	case r.Workload.Kept != "" && r.From == r.Workload.Kept:
		return "What ran in it is lost. It began anew with what it had kept of its changes; what was changed after that is lost, but for what a home keeps that all machines share."
	default:
		return "What ran in it is lost, and what had been changed, but for what a home keeps that all machines share: nothing of that has come back."
	}
}

// ChangesLost reports whether a session has ended on another host without its changes having come back, so that there
// are none.
func (r row) ChangesLost() bool {
	return r.Remote && !r.IsJob() && r.Workload.Kept == "" && r.Outcome != nil &&
		strings.Contains(r.Outcome.Reason, "has not come back")
}

// ScanPage is the path of the page of the scan of which it is a point; empty: of none.
func (r row) ScanPage() string {
	if r.Scan == "" {
		return ""
	}
	return scanPage(r.Visit, r.Scan)
}

// Where names the backend.
func (r row) Where() string { return backendWords(r.Catalogue, r.Backend) }
