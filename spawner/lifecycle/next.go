// Package lifecycle is the state machine of a workload: from what its owner wants, how far it has come and what is seen
// of it, to what is to be done next.
//
// Promises: Next is a pure function, and is walked over every situation that there can be. Unknown is not an answer, so
// nothing is concluded from it; resources are given back only by Release, which needs the workload to be seen not
// running. The package has no clock and does no I/O.
package lifecycle

import (
	"slipway/internal/agent/control"
	"slipway/spawner"
)

// Action is what the Manager is to do next for a workload.
type Action string

// The actions.
const (
	Wait            Action = "wait"             // nothing, until something changes
	Lease           Action = "lease"            // take its resources: Pending to Leased
	ClearDependency Action = "clear-dependency" // some of what a job was to start after is done: it does not wait for that any more
	Start           Action = "start"            // have the backend start it: to Starting
	Prewarm         Action = "prewarm"          // tell the agent of a standby what it is to become
	LaunchApp       Action = "launch-app"       // give the agent the app: to Booting
	Adopt           Action = "adopt"            // the agent has the app already: to Booting
	MarkRunning     Action = "mark-running"     // it answers: to Running
	Collect         Action = "collect"          // fetch log, files and outcome from the agent, then Stopping
	Fail            Action = "fail"             // it went wrong: note why, then Stopping
	Expire          Action = "expire"           // its time is up: to Stopping
	Terminate       Action = "terminate"        // its owner wants it ended: to Stopping
	Kill            Action = "kill"             // have the backend end its processes
	ReplaceSlice    Action = "replace-slice"    // its slice of a GPU is bad: have it ended, to go back in line for another
	Preempt         Action = "preempt"          // its slice is borrowed, and called back: have it ended, to go back in line
	HandleEviction  Action = "handle-eviction"  // a batch system took its place away: have what is left cleared, to go back in line
	Checkpoint      Action = "checkpoint"       // it has ended on another host: bring here what came back of it, a session's changes above all
	Requeue         Action = "requeue"          // it was seen gone, and goes back in line: to Pending
	EndBackoff      Action = "end-backoff"      // it has waited for long enough before its next try: it stands in line
	RetryJob        Action = "retry"            // it has failed and was seen gone, and is tried once more: to Pending
	Resume          Action = "resume"           // it was to be taken back, and has begun: back to Starting
	Release         Action = "release"          // it was seen gone: give its resources back, to Stopped
	Cleanup         Action = "cleanup"          // have the backend remove what is left
	Retire          Action = "retire"           // from Stopped or Pending to Removing
	Delete          Action = "delete"           // nothing is left: drop the record
)

// situation is all that next decides upon.
type Situation struct {
	Job   bool
	Want  spawner.Want
	Phase spawner.Phase
	Seen  spawner.Existence
	// app is the agent's word on the current launch; empty while the link is down or the agent speaks of another
	// launch.
	App control.State
	// armed says that what the app needs is at hand. A session's secrets are missing only when their seal cannot be
	// opened.
	Armed bool
	// started says that the backend's Start returned success for this launch since the service runs.
	Started bool
	// overdue says that the phase has lasted longer than its limit.
	Overdue bool
	// fault says that the agent found the slice of a GPU bad, and has not started the app.
	Fault bool
	// moving says that it is being ended to go back in line.
	Moving bool
	// again says that a job has failed, and is to be tried once more.
	Retry bool
	// recalled says that its slice is borrowed, and its owner is back.
	Recalled bool
	// expired says that a session has been idle, unvisited or running for longer than it may.
	Expired bool
	// remote says that its backend is a Remote. All below is of those alone, but held.
	Remote bool
	// evicted says of Exited that a batch system took its place away, before what runs there had ended by itself.
	Evicted bool
	// leaves says that the agent ends with its app, by itself.
	Leaves bool
	// withdrawing says that a job is being taken back to be held, unless it has begun.
	Withdrawing bool
	// unseen says that what is being ended for good, and leaves nothing that anybody wants, has not been seen for a
	// while.
	Unseen bool
	// after says what has become of what a job is to start after.
	After struct{ Open, Met, Lost bool }
	// rests says that a job waits for a while before its next try: while the phase is not overdue.
	Rests bool
	// held says that the owner of a job has it wait.
	Held bool
	// saved says that what came back of the run that has ended is here, or is known never to come.
	Saved bool
	// fleeting says that a session keeps nothing when it ends.
	Fleeting bool
	// standby says that a kernel waits for its owner to ask for it, and prepared that its agent knows what it is to
	// become.
	Standby, Prepared bool
	// unkept says that what a session had changed cannot be kept now: it stays where it is, and nothing runs over it.
	Unkept bool
}

// over reports whether what was to run has ended by itself. On another host the agent's word that its app has exited is
// not enough: the batch system may yet lose what it left.
func (s Situation) over() bool {
	if s.Remote && s.Seen == spawner.Exited {
		return !s.Evicted
	}
	return s.App == control.Exited
}

// displaced reports whether a workload has run and lost its place.
func (s Situation) displaced() bool {
	return s.Remote && (s.Seen == spawner.Exited && s.Evicted || s.Seen == spawner.Queued && s.Phase != spawner.Starting)
}

// next decides what to do. It has no clock and no I/O; it is walked exhaustively in a test.
//
// Two rules stand above all: Unknown is not an answer, so nothing is concluded from it; and resources are given back
// only by Settle, which needs the workload to be seen not running.
func Next(s Situation) Action {
	switch {
	case s.Phase == spawner.Removing:
		return remove(s.Seen)
	case s.Phase == spawner.Stopping:
		return stop(s)
	case s.Phase == spawner.Stopped:
		return rest(s)
	case s.Want != spawner.WantRunning:
		return leave(s)
	case s.Recalled && s.Phase != spawner.Pending && s.App != control.Exited: // who is done gives it back by itself, and does not run again
		return Preempt
	}
	switch s.Phase {
	case spawner.Pending:
		return admit(s)
	case spawner.Leased:
		return begin(s)
	case spawner.Starting, spawner.Booting:
		return boot(s)
	default:
		return tend(s)
	}
}

// remove clears a workload away.
func remove(seen spawner.Existence) Action {
	switch seen {
	case spawner.Unknown:
		return Wait
	case spawner.Absent:
		return Delete
	case spawner.Up, spawner.Queued, spawner.Held:
		return Kill
	default:
		return Cleanup
	}
}

// stop waits for the end of a workload that is being ended. A job leaves nothing behind but its outcome, and what ran
// on another host leaves nothing there that is not here.
func stop(s Situation) Action {
	switch {
	case s.Seen == spawner.Unknown && s.Unseen:
		return Kill // ending what has ended is success, and whether it has is seen then
	case s.Seen == spawner.Unknown:
		return Wait
	case s.Withdrawing && (s.Seen == spawner.Up || s.Seen == spawner.Exited && !s.Evicted):
		return Resume
	case s.Seen.Alive():
		return Kill
	case s.toSave() && s.Unkept:
		return Release
	case s.toSave():
		return Checkpoint
	case (s.Job || s.Remote || s.Fleeting) && s.Seen != spawner.Absent:
		return Cleanup
	case s.Moving && s.Want == spawner.WantRunning:
		return Requeue
	case s.Retry && s.Want == spawner.WantRunning:
		return RetryJob
	default:
		return Release
	}
}

// toSave reports whether something may have come back of a run on another host that is nowhere else, and is not to be
// dropped.
func (s Situation) toSave() bool {
	return s.Remote && !s.Fleeting && s.Seen == spawner.Exited && !s.Saved && s.Want != spawner.WantGone && !(s.Retry && s.Want == spawner.WantRunning)
}

// rest keeps a stopped workload stopped: it holds no resources, so nothing of it may run.
func rest(s Situation) Action {
	switch {
	case s.Want == spawner.WantGone:
		return Retire
	case s.Seen.Alive():
		return Kill
	case s.Fleeting && (s.Overdue || s.Standby):
		return Retire
	default:
		return Wait
	}
}

// leave ends an active workload that its owner does not want to run any more.
func leave(s Situation) Action {
	switch {
	case s.Phase == spawner.Pending && s.Want == spawner.WantGone:
		return Retire
	case s.Phase == spawner.Pending:
		return Release // it held nothing, so there is nothing to see gone
	case s.Phase != spawner.Leased && s.over() && s.Want == spawner.WantStopped:
		return harvest(s) // it has ended by itself already: what it left is not thrown away
	default:
		return Terminate
	}
}

// harvest fetches what an app that has ended left. A job's agent on another host ends by itself then, and all of it
// comes back. So does a session's that was asked there to end: whether its place was taken away is the batch system's
// to tell.
func harvest(s Situation) Action {
	if s.Remote && (s.Job || s.Leaves && s.Want == spawner.WantRunning) && (s.Seen.Alive() || s.Seen == spawner.Unknown) && !s.Overdue {
		return Wait
	}
	return Collect
}

// admit lets a waiting workload in. What an earlier try of a job has left here is cleared away before.
func admit(s Situation) Action {
	switch {
	case s.Moving:
		return Requeue
	case s.Standby: // it waits for nothing
		return Retire
	case s.After.Lost:
		return Fail
	case s.After.Met:
		return ClearDependency
	case s.Held || s.After.Open || s.Rests && !s.Overdue:
		return Wait
	case s.Rests:
		return EndBackoff
	default:
		return ifArmed(s, Lease)
	}
}

// begin starts a leased workload. What came back of an earlier run on another host, and could not be kept then, is
// saved first. A job finds nothing of an earlier try.
func begin(s Situation) Action {
	switch {
	case s.Remote && s.Seen == spawner.Unknown:
		return Wait
	case s.toSave():
		return Checkpoint
	case (s.Remote || s.Job || s.Fleeting) && s.Seen == spawner.Exited:
		return Cleanup
	default:
		return ifArmed(s, Start)
	}
}

// ifArmed returns a up where the app could never be given what it needs.
func ifArmed(s Situation, a Action) Action {
	if !s.Armed {
		return Fail
	}
	return a
}

// boot brings a workload from the backend's start to its first answer.
func boot(s Situation) Action {
	switch {
	case s.App == control.Exited && s.Fault:
		return ReplaceSlice
	case s.over():
		return harvest(s)
	case s.Seen == spawner.Unknown, s.Seen == spawner.Queued && !s.displaced():
		return Wait
	case s.Seen != spawner.Up:
		return revive(s)
	case s.Remote && s.Job:
		return MarkRunning // all that it runs has travelled with it
	case s.Phase == spawner.Starting && (s.App == control.Starting || s.App == control.Ready):
		return Adopt // the service was killed after it gave the agent the app, before it saved so
	case s.App == control.Ready:
		return MarkRunning
	case s.Standby && s.App == control.Idle && s.Prepared:
		return Wait
	case s.Standby && s.App == control.Idle:
		return Prewarm
	case s.Overdue:
		return Fail
	case s.App != control.Idle:
		return Wait
	default:
		return ifArmed(s, LaunchApp)
	}
}

// revive repeats a start that a killed service may have left half-done. A start that is known to have succeeded, and
// any that left a job ended, is not repeated: the workload has died, and a job runs at most once, but for one whose
// place was taken away.
func revive(s Situation) Action {
	switch {
	case s.displaced():
		return HandleEviction
	case s.Seen == spawner.Held && s.Job:
		return Wait
	case s.Seen == spawner.Held, s.Started, s.Phase == spawner.Booting, s.Job && s.Seen == spawner.Exited:
		return Fail
	default:
		return ifArmed(s, Start)
	}
}

// tend watches over a running workload.
func tend(s Situation) Action {
	switch {
	case s.over():
		return harvest(s)
	case s.Seen == spawner.Unknown, s.Seen == spawner.Held && s.Job:
		return Wait
	case s.displaced():
		return HandleEviction
	case s.Seen != spawner.Up, s.App == control.Idle && !(s.Remote && s.Job):
		return Fail
	case s.Expired:
		return Expire
	default:
		return Wait
	}
}
