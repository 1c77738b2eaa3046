package diagnosis

import (
	"errors"
	"fmt"
	"strings"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// FromError returns how an error is told to the workload's owner.
func FromError(err error) spawner.Outcome {
	o := spawner.Outcome{Failed: true, ExitCode: 1, Reason: err.Error()}
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Remedy != "" {
		o.Reason, o.Remedy = strings.TrimSuffix(o.Reason, ": "+e.Remedy), e.Remedy
	}
	return o
}

// OfExit returns what an agent tells of how its app has exited, and a backend of what it took.
func OfExit(s control.Status, o spawner.Observation) spawner.Outcome {
	return spawner.Outcome{
		ExitCode: s.ExitCode, Reason: s.Reason, MaxRSS: max(s.MaxRSS, o.Memory), CPU: max(s.CPU, o.CPU),
	}
}

// AddReason notes what a backend knows of why a workload has failed.
func AddReason(out *spawner.Outcome, o spawner.Observation) {
	if out.Failed && o.Reason != "" {
		out.Reason, out.Remedy = o.Reason, o.Remedy
	}
}

// ExitWords say of a failure that nothing is known but an exit code.
func ExitWords(k spawner.Kind, code int) string {
	return fmt.Sprintf("%s ended with exit code %d", k.Title(), code)
}

// AddMissing notes that a job which ended well has not left all that it was to leave.
func AddMissing(o *spawner.Outcome, patterns []string) {
	if len(patterns) == 0 || o.Failed {
		return
	}
	o.Failed, o.ExitCode, o.Cause = true, max(o.ExitCode, 1), spawner.CauseOutput
	o.Reason = "its payload ended with 0 and has not left " + strings.Join(patterns, ", ")
	o.Remedy = "have it write these files into the directory in which it starts, or name others with --out"
}

// AddLost notes what of a job's output could not be fetched.
func AddLost(o *spawner.Outcome, lost []string) {
	if len(lost) == 0 {
		return
	}
	if !o.Failed {
		o.Cause = spawner.CauseOutput
	}
	o.Failed, o.ExitCode = true, max(o.ExitCode, 1)
	o.Reason = strings.TrimPrefix(o.Reason+"; ", "; ") + "not all of its output could be kept: " +
		strings.Join(lost, "; ")
	if o.Remedy == "" {
		o.Remedy = "write large files, and those that only you may read, to your home"
	}
}

// StartFresh is what a user can do whose session does not come up any more.
const StartFresh = "if something that you installed or changed keeps it from starting, tick “Start fresh” when you start it: that discards your changes to the environment, not your home"

// WithLost tells that something of a session is lost with its end.
func WithLost(o spawner.Outcome, lost string) spawner.Outcome {
	o.Reason += "; " + lost
	if !o.Failed {
		o.Failed, o.Remedy = true, "start it again: it goes on from what it had kept before"
	}
	return o
}

// NotThere is an agent's exit code of an app whose program is not in the image, as shells have it.
const NotThere = 127

// Farewell returns the event that tells a workload's end.
func Farewell(w spawner.Workload) spawner.Event {
	o := w.Outcome
	switch {
	case o == nil:
		return spawner.Event{Percent: 100, Message: "Stopped", Final: true}
	case o.Failed && !o.Canceled:
		return spawner.Event{Percent: 100, Message: sentence(o), Final: true, Failed: true}
	case w.Kind.Batch() && !o.Canceled:
		return spawner.Event{Percent: 100, Message: "The job is done", Final: true}
	default:
		return spawner.Event{Percent: 100, Message: "Stopped: " + sentence(o), Final: true, Failed: o.Failed}
	}
}

// sentence joins reason and remedy.
func sentence(o *spawner.Outcome) string {
	if o.Remedy == "" {
		return o.Reason
	}
	return o.Reason + " — " + o.Remedy
}

// Brief returns the words of the error of a kind that err is, without what it came from.
func Brief(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	switch {
	case !ok:
		return err.Error()
	case e.Err == nil:
		return e.Message
	default:
		return strings.TrimSuffix(e.Message, ": "+e.Err.Error())
	}
}
