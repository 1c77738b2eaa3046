// Package lifecycle is the state machine of a workload: from what its owner wants, how far it has come and what is seen
// of it, to what is to be done next.
//
// Each phase has an input of its own, with what matters in that phase and nothing else. Promises: Next is a pure
// function, and is walked over all values that its input can have. Unknown is not an answer, so nothing is concluded
// from it; resources are given back only by Release, Requeue and RetryJob, which need the workload to be seen not
// running. The package has no clock and does no I/O.
package lifecycle

import (
	"slipway/internal/agent/control"
	"slipway/spawner"
)

// Input is all that is decided upon in one phase.
type Input interface {
	// Next returns what is to be done.
	Next() Action
}

// Role is what a workload is, as far as its phases go on in another way.
type Role int

// The roles.
const (
	Session   Role = iota // keeps its changes when it ends
	Job                   // keeps its outcome and its files
	Kernel                // keeps nothing
	Standby               // a kernel that nobody has asked for yet
	Prewarmed             // a standby whose agent knows what it is to become
)

func (r Role) kernel() bool  { return r >= Kernel }
func (r Role) standby() bool { return r >= Standby }

// Evicted is as what a workload is seen that has Exited because a batch system took its place away, before what runs
// there had ended by itself.
const Evicted spawner.Existence = "evicted"

// ended reports whether what is seen ran and has ended.
func ended(seen spawner.Existence) bool { return seen == spawner.Exited || seen == Evicted }

// Dependency is what has become of what a job is to start after.
type Dependency int

// What may have become of it; of several things the last of these counts.
const (
	NoDependency   Dependency = iota
	OpenDependency            // some of it goes on
	MetDependency             // some of it is done
	LostDependency            // some of it never will be
)

// Backoff is whether a job waits before its next try.
type Backoff int

// The states of a backoff.
const (
	NoBackoff    Backoff = iota
	InBackoff            // it waits
	BackoffEnded         // it has waited for long enough
)

// Pending is the input of a workload that holds nothing.
type Pending struct {
	Want       spawner.Want
	Standby    bool // nobody has asked for it: it waits for nothing
	Moving     bool // what an earlier run has left here is to be cleared before it stands in line
	Dependency Dependency
	Held       bool // its owner has it wait
	Backoff    Backoff
	// Armed says that what the app needs is at hand. A session's secrets are missing only when their seal cannot be
	// opened.
	Armed bool
}

// Next lets a waiting workload in.
func (p Pending) Next() Action {
	switch {
	case p.Want == spawner.WantGone:
		return Retire
	case p.Want != spawner.WantRunning:
		return Release // it held nothing, so there is nothing to see gone
	case p.Moving:
		return Requeue
	case p.Standby:
		return Retire
	case p.Dependency == LostDependency:
		return Fail
	case p.Dependency == MetDependency:
		return ClearDependency
	case p.Held || p.Dependency == OpenDependency || p.Backoff == InBackoff:
		return Wait
	case p.Backoff == BackoffEnded:
		return EndBackoff
	default:
		return ifArmed(p.Armed, Lease)
	}
}

// Leased is the input of a workload whose resources are its own, and that was not started.
type Leased struct {
	Want     spawner.Want
	Seen     spawner.Existence
	Role     Role
	Remote   bool // its backend is a Remote
	Recalled bool // its slice is borrowed, and its owner is back
	Saved    bool // what came back of the run before is here, or is known never to come
	Armed    bool // as in Pending
}

// Next starts a leased workload. What came back of an earlier run on another host, and could not be kept then, is saved
// first. A job finds nothing of an earlier try.
func (l Leased) Next() Action {
	switch {
	case l.Want != spawner.WantRunning:
		return Terminate
	case l.Recalled:
		return Preempt
	case l.Remote && l.Seen == spawner.Unknown:
		return Wait
	case l.Remote && !l.Role.kernel() && ended(l.Seen) && !l.Saved:
		return Checkpoint
	case (l.Remote || l.Role != Session) && ended(l.Seen):
		return Cleanup
	default:
		return ifArmed(l.Armed, Start)
	}
}

// Starting is the input of a workload that the backend was asked to start, until it answers.
type Starting struct {
	Want spawner.Want
	Seen spawner.Existence
	Role Role
	// App is the agent's word on the current run; empty while the link is down or the agent speaks of another run.
	App control.State
	// Launched says that the agent was given the app: the phase is Booting.
	Launched bool
	Remote   bool // its backend is a Remote
	Armed    bool // as in Pending
	Started  bool // the backend's Start returned success for this launch since the service runs
	Overdue  bool // the phase has lasted longer than its limit
	Fault    bool // the agent found the slice of a GPU bad, and has not started the app
	Recalled bool // its slice is borrowed, and its owner is back
	Leaves   bool // its agent, on another host, ends with its app by itself
}

// Next brings a workload from the backend's start to its first answer.
func (s Starting) Next() Action {
	over := over(s.Remote, s.Seen, s.App)
	displaced := s.Remote && (s.Seen == Evicted || s.Seen == spawner.Queued && s.Launched)
	switch {
	case s.Want != spawner.WantRunning:
		return leave(s.Want, over, s.collect())
	case s.Recalled && s.App != control.Exited: // who is done gives it back by itself, and does not run again
		return Preempt
	case s.App == control.Exited && s.Fault:
		return ReplaceSlice
	case over:
		return s.collect()
	case s.Seen == spawner.Unknown, s.Seen == spawner.Queued && !displaced:
		return Wait
	case displaced:
		return HandleEviction
	case s.Seen != spawner.Up:
		return s.revive()
	case s.Remote && s.Role == Job:
		return MarkRunning // all that it runs has travelled with it
	case !s.Launched && (s.App == control.Starting || s.App == control.Ready):
		return Adopt // the service was killed after it gave the agent the app, before it saved so
	case s.App == control.Ready:
		return MarkRunning
	case s.Role == Prewarmed && s.App == control.Idle:
		return Wait
	case s.Role == Standby && s.App == control.Idle:
		return Prewarm
	case s.Overdue:
		return Fail
	case s.App != control.Idle:
		return Wait
	default:
		return ifArmed(s.Armed, LaunchApp)
	}
}

// revive repeats a start that a killed service may have left half-done. A start that is known to have succeeded, and
// any that left a job ended, is not repeated: the workload has died, and a job runs at most once, but for one whose
// place was taken away.
func (s Starting) revive() Action {
	switch {
	case s.Seen == spawner.Held && s.Role == Job:
		return Wait
	case s.Seen == spawner.Held, s.Started, s.Launched, s.Role == Job && ended(s.Seen):
		return Fail
	default:
		return ifArmed(s.Armed, Start)
	}
}

func (s Starting) collect() Action {
	return collect(s.Remote && (s.Role == Job || s.Leaves && s.Want == spawner.WantRunning), s.Seen, s.Overdue)
}

// Running is the input of a workload that answers, or of a job whose payload runs.
type Running struct {
	Want     spawner.Want
	Seen     spawner.Existence
	Role     Role
	App      control.State // as in Starting
	Remote   bool          // its backend is a Remote
	Overdue  bool          // what it leaves is on its way for longer than it may be
	Recalled bool          // its slice is borrowed, and its owner is back
	Leaves   bool          // its agent, on another host, ends with its app by itself
	Expired  bool          // it has been idle, unvisited or running for longer than it may
}

// Next watches over a running workload.
func (r Running) Next() Action {
	over := over(r.Remote, r.Seen, r.App)
	collect := collect(r.Remote && (r.Role == Job || r.Leaves && r.Want == spawner.WantRunning), r.Seen, r.Overdue)
	switch {
	case r.Want != spawner.WantRunning:
		return leave(r.Want, over, collect)
	case r.Recalled && r.App != control.Exited:
		return Preempt
	case over:
		return collect
	case r.Seen == spawner.Unknown, r.Seen == spawner.Held && r.Role == Job:
		return Wait
	case r.Remote && (r.Seen == Evicted || r.Seen == spawner.Queued):
		return HandleEviction
	case r.Seen != spawner.Up, r.App == control.Idle && !(r.Remote && r.Role == Job):
		return Fail
	case r.Expired:
		return Expire
	default:
		return Wait
	}
}

// Purpose is what a workload is being ended for.
type Purpose int

// The purposes.
const (
	ToEnd      Purpose = iota // for good
	ToRequeue                 // to go back in line
	ToRetry                   // it has failed, and is to be tried once more
	ToWithdraw                // to be held, unless it has begun
)

// Stopping is the input of a workload that is being ended.
type Stopping struct {
	Want    spawner.Want
	Seen    spawner.Existence
	Role    Role
	Purpose Purpose
	Remote  bool // its backend is a Remote
	Saved   bool // what came back of the run that has ended is here, or is known never to come
	Unkept  bool // what it had changed cannot be kept now: it stays where it is, and nothing runs over it
	// Unseen says that it is ended for good, leaves nothing that anybody wants, and has not been seen for a while.
	Unseen bool
}

// Next waits for the end of a workload that is being ended. A job leaves nothing behind but its outcome, and what ran on
// another host leaves nothing there that is not here.
func (s Stopping) Next() Action {
	wanted := s.Want == spawner.WantRunning
	switch {
	case s.Seen == spawner.Unknown && s.Unseen:
		return Kill // ending what has ended is success, and whether it has is seen then
	case s.Seen == spawner.Unknown:
		return Wait
	case s.Purpose == ToWithdraw && wanted && (s.Seen == spawner.Up || s.Seen == spawner.Exited):
		return Resume
	case s.Seen.Alive():
		return Kill
	case s.toSave() && s.Unkept:
		return Release
	case s.toSave():
		return Checkpoint
	case (s.Remote || s.Role != Session) && s.Seen != spawner.Absent:
		return Cleanup
	case (s.Purpose == ToRequeue || s.Purpose == ToWithdraw) && wanted:
		return Requeue
	case s.Purpose == ToRetry && wanted:
		return RetryJob
	default:
		return Release
	}
}

// toSave reports whether something may have come back of a run on another host that is nowhere else, and is not to be
// dropped.
func (s Stopping) toSave() bool {
	dropped := s.Want == spawner.WantGone || s.Purpose == ToRetry && s.Want == spawner.WantRunning
	return s.Remote && !s.Role.kernel() && ended(s.Seen) && !s.Saved && !dropped
}

// Stopped is the input of a workload that holds nothing, and is kept.
type Stopped struct {
	Want    spawner.Want
	Seen    spawner.Existence
	Role    Role
	Overdue bool // of a kernel: how it has ended was known for long enough
}

// Next keeps a stopped workload stopped: it holds no resources, so nothing of it may run.
func (s Stopped) Next() Action {
	switch {
	case s.Want == spawner.WantGone:
		return Retire
	case s.Seen.Alive():
		return Kill
	case s.Role.kernel() && (s.Overdue || s.Role.standby()):
		return Retire
	default:
		return Wait
	}
}

// Removing is the input of a workload that is being forgotten.
type Removing struct{ Seen spawner.Existence }

// Next clears a workload away.
func (r Removing) Next() Action {
	switch r.Seen {
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

// over reports whether what was to run has ended by itself. On another host the agent's word that its app has exited is
// not enough: the batch system may yet lose what it left.
func over(remote bool, seen spawner.Existence, app control.State) bool {
	if remote && ended(seen) {
		return seen != Evicted
	}
	return app == control.Exited
}

// leave ends an active workload that its owner does not want to run any more. What one has left that has ended by
// itself already is not thrown away.
func leave(want spawner.Want, over bool, collect Action) Action {
	if over && want == spawner.WantStopped {
		return collect
	}
	return Terminate
}

// collect fetches what an app that has ended left. comesBack says that its agent, on another host, ends by itself then,
// and all of it comes back: whether its place was taken away is the batch system's to tell.
func collect(comesBack bool, seen spawner.Existence, overdue bool) Action {
	if comesBack && (seen.Alive() || seen == spawner.Unknown) && !overdue {
		return Wait
	}
	return Collect
}

// ifArmed returns a, or that the workload fails where the app could never be given what it needs.
func ifArmed(armed bool, a Action) Action {
	if !armed {
		return Fail
	}
	return a
}
