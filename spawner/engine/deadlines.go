package engine

import (
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/spawner"
	"slipway/spawner/backends"
	"slipway/spawner/lifecycle"
)

// unseenPatience is how long what is to end on another host is looked for before it is ended unseen, and between two
// tries.
const unseenPatience = time.Minute

// returnPatience is how long what a job has left may be on its way back, when its agent has told that it has ended.
const returnPatience = 10 * time.Minute

// askPatience is how long it is tried to have an agent on another host end its app, beside the app's own grace. Where
// it has what nobody else has, it is longer; see askFor.
const askPatience = 2 * time.Minute

// Limits are how long a phase may last before the workload is given up, and how long a job waits for its next try.
type Limits struct {
	Agent time.Duration // from the backend's start to the agent's first word. Zero: 60 s
	// the same on another host, which may have to fetch the image first; from when it runs there. Zero: 20 min
	BootRemote time.Duration
	Boot       time.Duration // from there to the first answer. Zero: 3 min
	Grace      time.Duration // between asking a workload to end and killing it. Zero: 10 s
	// what a session on another host has for bringing back what it has changed, once it has ended. Zero: 15 min
	Pack time.Duration
	// Retry is how long a job waits before it is tried again by itself for the first time; before each further one
	// three times as long, up to five minutes. Zero: not at all.
	Retry time.Duration
}

// deadlines say how long the phases of workloads may last, and for how long else something is waited for.
type deadlines struct {
	kind   func(spawner.Kind) *Kind
	limits Limits
	born   time.Time     // when the service began: while it was away nothing could go on
	recall time.Duration // between telling a job to end whose slice is called back, and killing it
}

// unseen reports whether what is being ended on another host, and is not seen, is to be ended all the same. What a
// session has changed could be lost by that: it is looked for until its backend tells what has become of it.
func (d *deadlines) unseen(e Entry) bool {
	given := e.Want == spawner.WantGone || e.Kind.Batch() && e.Want == spawner.WantStopped
	return e.Phase == spawner.Stopping && given && min(d.inPhase(e), time.Since(e.blindly)) >= unseenPatience
}

// phaseBegan returns the time from which a phase's limit counts. While the service was away nothing could go on, and a
// backend's Start takes what it takes.
func (d *deadlines) phaseBegan(e Entry) time.Time {
	switch {
	case !e.quit.IsZero():
		return e.quit
	case e.Phase == spawner.Starting && e.Begun && !e.startedAt.IsZero():
		return e.startedAt
	case e.Since.Before(d.born):
		return d.born
	default:
		return d.phaseOwn(e)
	}
}

// phaseOwn returns when a phase began, whoever was there to see to it. A time that has not come yet is of a clock that
// was set back.
func (d *deadlines) phaseOwn(e Entry) time.Time {
	if e.Since.After(time.Now()) {
		return d.born
	}
	return e.Since
}

// inPhase returns for how long this run of the service has seen to a workload's phase.
func (d *deadlines) inPhase(e Entry) time.Duration {
	return time.Since(clock.Latest(d.phaseOwn(e), d.born))
}

// limit returns how long the phase may last; false when for ever.
func (d *deadlines) limit(e Entry) (time.Duration, bool) {
	if e.BackingOff && e.Phase == spawner.Pending {
		return lifecycle.PauseBefore(e.Attempt, d.limits.Retry), true
	}
	if e.Remote {
		return d.limitElsewhere(&e)
	}
	return d.limitHere(&e)
}

func (d *deadlines) limitHere(e *Entry) (time.Duration, bool) {
	switch e.Phase {
	case spawner.Booting:
		return d.limits.Boot, true
	case spawner.Starting:
		return d.limits.Agent, true
	default:
		return d.remembered(e)
	}
}

// limitElsewhere counts nothing before something runs on the other host, and of a job only the way back of what it has
// left.
func (d *deadlines) limitElsewhere(e *Entry) (time.Duration, bool) {
	switch {
	case e.Kind.Batch() || !e.quit.IsZero():
		return returnPatience, !e.quit.IsZero()
	case e.Phase == spawner.Booting && e.Status.State == "": // the way to it is down, for a while
		return d.limits.BootRemote, true
	case e.Phase == spawner.Booting:
		return d.limits.Boot, true
	case e.Phase == spawner.Starting:
		return d.limits.BootRemote, !e.startedAt.IsZero()
	default:
		return d.remembered(e)
	}
}

// remembered returns for how long a workload that has ended by itself is kept; false: until its owner removes it.
func (d *deadlines) remembered(e *Entry) (time.Duration, bool) {
	span := d.kind(e.Kind).Remembered
	return span, span > 0 && e.Phase == spawner.Stopped
}

// grace returns how long a workload has between being told to end and being killed. A slice that is called back is to
// be back by its deadline, however often the service was killed meanwhile.
//
// Of a job whose app has exited nothing is left to be asked: what that has left running its agent would kill too.
func (d *deadlines) grace(e Entry) time.Duration {
	if e.Kind.Batch() && !e.Remote && appOf(e) == control.Exited {
		return 0
	}
	if !e.Moving || e.Lender == "" || d.recall == 0 {
		return d.limits.Grace
	}
	return max(d.recall-time.Since(d.phaseOwn(e)), time.Second)
}

// askFor is how long it is tried to have an agent end. That of a session that was up has what was changed in it: a link
// that is down for a while is no reason to lose that, and no shorter than one that is waited for when it starts. With a
// job's only its output is lost: its link has the time to come up again that the job would have to end, as after a
// restart of the service.
func (d *deadlines) askFor(e Entry) time.Duration {
	patience := d.limits.Grace + askPatience
	switch {
	case e.Kind.Session() && !e.Up.IsZero():
		return max(patience, d.limits.BootRemote)
	case e.Kind.Batch() && e.Status.State == "":
		return d.limits.Grace
	default:
		return patience
	}
}

// wayBack is how long what a workload leaves may take from its end to this host.
func (d *deadlines) wayBack(e Entry) time.Duration {
	if e.Kind.Batch() {
		return d.limits.Grace + askPatience
	}
	return d.limits.Grace + d.limits.Pack
}

// Resists reports whether a workload on another host runs on though its backend was asked to end it.
func (d *deadlines) Resists(e Entry) bool {
	patience := d.limits.Grace + backends.Patience
	switch {
	case !e.Asked.IsZero():
		patience += d.wayBack(e)
	case !e.Moving || e.Kind.Session():
		patience += d.askFor(e)
	}
	return d.inPhase(e) > patience
}

// BackoffWords says how long a job waits yet before its next try, and why: "tries again in 30s: the job ended with exit
// code 1".
func (d *deadlines) BackoffWords(e Entry) string {
	words := "tries again in " + max(
		time.Until(d.phaseBegan(e).Add(lifecycle.PauseBefore(e.Attempt, d.limits.Retry))), time.Second,
	).Round(time.Second).String()
	if len(e.Attempts) > 0 {
		words += ": " + e.Attempts[len(e.Attempts)-1].Reason
	}
	return words
}
