package spawner

import "slipway/internal/agent/control"

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
type situation struct {
	job   bool
	want  Want
	phase Phase
	seen  Existence
	// app is the agent's word on the current launch; empty while the link is down or the agent speaks of another launch.
	app control.State
	// armed says that what the app needs is at hand. A session's secrets are missing only when their seal cannot be opened.
	armed bool
	// started says that the backend's Start returned success for this launch since the service runs.
	started bool
	// overdue says that the phase has lasted longer than its limit.
	overdue bool
	// fault says that the agent found the slice of a GPU bad, and has not started the app.
	fault bool
	// moving says that it is being ended to go back in line.
	moving bool
	// again says that a job has failed, and is to be tried once more.
	retry bool
	// recalled says that its slice is borrowed, and its owner is back.
	recalled bool
	// expired says that a session has been idle, unvisited or running for longer than it may.
	expired bool
	// remote says that its backend is a Remote. All below is of those alone, but held.
	remote bool
	// evicted says of Exited that a batch system took its place away, before what runs there had ended by itself.
	evicted bool
	// leaves says that the agent ends with its app, by itself.
	leaves bool
	// withdrawing says that a job is being taken back to be held, unless it has begun.
	withdrawing bool
	// unseen says that what is being ended for good, and leaves nothing that anybody wants, has not been seen for a while.
	unseen bool
	// after says what has become of what a job is to start after.
	after struct{ open, met, lost bool }
	// rests says that a job waits for a while before its next try: while the phase is not overdue.
	rests bool
	// held says that the owner of a job has it wait.
	held bool
	// saved says that what came back of the run that has ended is here, or is known never to come.
	saved bool
	// fleeting says that a session keeps nothing when it ends.
	fleeting bool
	// standby says that a kernel waits for its owner to ask for it, and prepared that its agent knows what it is to become.
	standby, prepared bool
	// unkept says that what a session had changed cannot be kept now: it stays where it is, and nothing runs over it.
	unkept bool
}

// alive reports whether a workload runs, or may come to run without being asked again.
func (e Existence) alive() bool { return e == Up || e == Queued || e == Held }

// over reports whether what was to run has ended by itself. On another host the agent's word that its app has exited is not enough: the
// batch system may yet lose what it left.
func (s situation) over() bool {
	if s.remote && s.seen == Exited {
		return !s.evicted
	}
	return s.app == control.Exited
}

// displaced reports whether a workload has run and lost its place.
func (s situation) displaced() bool {
	return s.remote && (s.seen == Exited && s.evicted || s.seen == Queued && s.phase != Starting)
}

// next decides what to do. It has no clock and no I/O; it is walked exhaustively in a test.
//
// Two rules stand above all: Unknown is not an answer, so nothing is concluded from it; and resources are given back only by
// Settle, which needs the workload to be seen not running.
func next(s situation) Action {
	switch {
	case s.phase == Removing:
		return remove(s.seen)
	case s.phase == Stopping:
		return stop(s)
	case s.phase == Stopped:
		return rest(s)
	case s.want != WantRunning:
		return leave(s)
	case s.recalled && s.phase != Pending && s.app != control.Exited: // who is done gives it back by itself, and does not run again
		return Preempt
	}
	switch s.phase {
	case Pending:
		return admit(s)
	case Leased:
		return begin(s)
	case Starting, Booting:
		return boot(s)
	default:
		return tend(s)
	}
}

// remove clears a workload away.
func remove(seen Existence) Action {
	switch seen {
	case Unknown:
		return Wait
	case Absent:
		return Delete
	case Up, Queued, Held:
		return Kill
	default:
		return Cleanup
	}
}

// stop waits for the end of a workload that is being ended. A job leaves nothing behind but its outcome, and what ran on another host
// leaves nothing there that is not here.
func stop(s situation) Action {
	switch {
	case s.seen == Unknown && s.unseen:
		return Kill // ending what has ended is success, and whether it has is seen then
	case s.seen == Unknown:
		return Wait
	case s.withdrawing && (s.seen == Up || s.seen == Exited && !s.evicted):
		return Resume
	case s.seen.alive():
		return Kill
	case s.toSave() && s.unkept:
		return Release
	case s.toSave():
		return Checkpoint
	case (s.job || s.remote || s.fleeting) && s.seen != Absent:
		return Cleanup
	case s.moving && s.want == WantRunning:
		return Requeue
	case s.retry && s.want == WantRunning:
		return RetryJob
	default:
		return Release
	}
}

// toSave reports whether something may have come back of a run on another host that is nowhere else, and is not to be dropped.
func (s situation) toSave() bool {
	return s.remote && !s.fleeting && s.seen == Exited && !s.saved && s.want != WantGone && !(s.retry && s.want == WantRunning)
}

// rest keeps a stopped workload stopped: it holds no resources, so nothing of it may run.
func rest(s situation) Action {
	switch {
	case s.want == WantGone:
		return Retire
	case s.seen.alive():
		return Kill
	case s.fleeting && (s.overdue || s.standby):
		return Retire
	default:
		return Wait
	}
}

// leave ends an active workload that its owner does not want to run any more.
func leave(s situation) Action {
	switch {
	case s.phase == Pending && s.want == WantGone:
		return Retire
	case s.phase == Pending:
		return Release // it held nothing, so there is nothing to see gone
	case s.phase != Leased && s.over() && s.want == WantStopped:
		return harvest(s) // it has ended by itself already: what it left is not thrown away
	default:
		return Terminate
	}
}

// harvest fetches what an app that has ended left. A job's agent on another host ends by itself then, and all of it comes back. So does a
// session's that was asked there to end: whether its place was taken away is the batch system's to tell.
func harvest(s situation) Action {
	if s.remote && (s.job || s.leaves && s.want == WantRunning) && (s.seen.alive() || s.seen == Unknown) && !s.overdue {
		return Wait
	}
	return Collect
}

// admit lets a waiting workload in. What an earlier try of a job has left here is cleared away before.
func admit(s situation) Action {
	switch {
	case s.moving:
		return Requeue
	case s.standby: // it waits for nothing
		return Retire
	case s.after.lost:
		return Fail
	case s.after.met:
		return ClearDependency
	case s.held || s.after.open || s.rests && !s.overdue:
		return Wait
	case s.rests:
		return EndBackoff
	default:
		return ifArmed(s, Lease)
	}
}

// begin starts a leased workload. What came back of an earlier run on another host, and could not be kept then, is saved first. A job
// finds nothing of an earlier try.
func begin(s situation) Action {
	switch {
	case s.remote && s.seen == Unknown:
		return Wait
	case s.toSave():
		return Checkpoint
	case (s.remote || s.job || s.fleeting) && s.seen == Exited:
		return Cleanup
	default:
		return ifArmed(s, Start)
	}
}

// ifArmed returns a up where the app could never be given what it needs.
func ifArmed(s situation, a Action) Action {
	if !s.armed {
		return Fail
	}
	return a
}

// boot brings a workload from the backend's start to its first answer.
func boot(s situation) Action {
	switch {
	case s.app == control.Exited && s.fault:
		return ReplaceSlice
	case s.over():
		return harvest(s)
	case s.seen == Unknown, s.seen == Queued && !s.displaced():
		return Wait
	case s.seen != Up:
		return revive(s)
	case s.remote && s.job:
		return MarkRunning // all that it runs has travelled with it
	case s.phase == Starting && (s.app == control.Starting || s.app == control.Ready):
		return Adopt // the service was killed after it gave the agent the app, before it saved so
	case s.app == control.Ready:
		return MarkRunning
	case s.standby && s.app == control.Idle && s.prepared:
		return Wait
	case s.standby && s.app == control.Idle:
		return Prewarm
	case s.overdue:
		return Fail
	case s.app != control.Idle:
		return Wait
	default:
		return ifArmed(s, LaunchApp)
	}
}

// revive repeats a start that a killed service may have left half-done. A start that is known to have succeeded, and any that
// left a job ended, is not repeated: the workload has died, and a job runs at most once, but for one whose place was taken away.
func revive(s situation) Action {
	switch {
	case s.displaced():
		return HandleEviction
	case s.seen == Held && s.job:
		return Wait
	case s.seen == Held, s.started, s.phase == Booting, s.job && s.seen == Exited:
		return Fail
	default:
		return ifArmed(s, Start)
	}
}

// tend watches over a running workload.
func tend(s situation) Action {
	switch {
	case s.over():
		return harvest(s)
	case s.seen == Unknown, s.seen == Held && s.job:
		return Wait
	case s.displaced():
		return HandleEviction
	case s.seen != Up, s.app == control.Idle && !(s.remote && s.job):
		return Fail
	case s.expired:
		return Expire
	default:
		return Wait
	}
}
