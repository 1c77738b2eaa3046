package engine

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
)

// outcomeOf tells an error to the workload's owner.
func outcomeOf(err error) spawner.Outcome {
	o := spawner.Outcome{Failed: true, ExitCode: 1, Reason: err.Error()}
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Remedy != "" {
		o.Reason, o.Remedy = strings.TrimSuffix(o.Reason, ": "+e.Remedy), e.Remedy
	}
	return o
}

// addMissing notes that a job which ended well has not left all that it was to leave.
func addMissing(o *spawner.Outcome, patterns []string) {
	if len(patterns) == 0 || o.Failed {
		return
	}
	o.Failed, o.ExitCode, o.Cause = true, max(o.ExitCode, 1), spawner.CauseOutput
	o.Reason = "its payload ended with 0 and has not left " + strings.Join(patterns, ", ")
	o.Remedy = "have it write these files into the directory in which it starts, or name others with --out"
}

// addLost notes what of a job's output could not be fetched.
func addLost(o *spawner.Outcome, lost []string) {
	if len(lost) == 0 {
		return
	}
	if !o.Failed {
		o.Cause = spawner.CauseOutput
	}
	o.Failed, o.ExitCode = true, max(o.ExitCode, 1)
	o.Reason = strings.TrimPrefix(o.Reason+"; ", "; ") + "not all of its output could be kept: " + strings.Join(lost, "; ")
	if o.Remedy == "" {
		o.Remedy = "write large files, and those that only you may read, to your home"
	}
}

// afresh is what a user can do whose session does not come up any more.
const afresh = "if something that you installed or changed keeps it from starting, tick “Start fresh” when you start it: that discards your changes to the environment, not your home"

// canceled is the outcome of a workload that its owner ended.
func canceled(e Entry) spawner.Outcome {
	o := spawner.Outcome{Canceled: true, ExitCode: 143, Reason: "stopped by its owner", Failed: e.Kind == spawner.Job}
	switch {
	case e.Kind == spawner.Job:
		o.Cause = spawner.CauseCanceled
	case e.Phase != spawner.Running:
		o.Reason = "its start was canceled"
	}
	return o
}

// whyFailed says in plain words why a workload that should run is given up.
func (m *Manager) whyFailed(e Entry, o spawner.Observation) spawner.Outcome {
	out, what := spawner.Outcome{Failed: true, ExitCode: max(o.ExitCode, 1), Remedy: o.Remedy}, "container"
	if e.Remote {
		what = vessel(e)
	}
	switch app := appOf(e); {
	case m.prerequisites(&e.Workload).Lost:
		return m.forsaken(&e.Workload)
	case o.Existence == spawner.Held:
		out.Reason = fmt.Sprintf("%s holds it: %s", m.At(e.Backend), o.Reason)
	case o.Existence == spawner.Exited && o.Reason != "":
		out.Reason, out.Tail, out.Signal, out.Cause = o.Reason, o.Tail, diagnosis.SignalOf(o.ExitCode), e.exitCause()
	case o.Existence == spawner.Exited:
		out.Signal, out.Cause = diagnosis.SignalOf(o.ExitCode), e.exitCause()
		out.Reason, out.Tail = fmt.Sprintf("its %s ended with exit code %d", what, o.ExitCode), o.Tail
	case !e.armed() && e.Phase != spawner.Running && (e.Phase != spawner.Booting || app == control.Idle):
		out.Reason, out.Remedy = "the service's secret key was changed while it was being started", "start it again"
	case e.Remote && (o.Existence == spawner.Absent || o.Existence == spawner.Created):
		out.Reason, out.Cause = fmt.Sprintf("it is gone from %s: it was removed outside Slipway", m.At(e.Backend)), spawner.CauseLost
	case o.Existence == spawner.Absent || o.Existence == spawner.Created:
		out.Reason, out.Cause = "its container is gone: it was removed outside Slipway", spawner.CauseLost
	case app == control.Idle && e.Phase == spawner.Running:
		out.Reason = "its container was restarted outside Slipway"
	case e.Phase == spawner.Starting && e.Remote:
		out.Reason = fmt.Sprintf("its agent on %s did not reach the service within %s", cmp.Or(e.Host, "its host"), m.cfg.Limits.BootRemote)
		out.Remedy = "tell your administrator: the host may have no way to the service's address"
	case e.Phase == spawner.Starting:
		out.Reason = fmt.Sprintf("its agent did not come up within %s", m.cfg.Limits.Agent)
		out.Remedy = "tell your administrator: `slipway doctor` and the container's log say more"
	default:
		out.Reason = fmt.Sprintf("%s did not answer within %s", title(e.Kind), m.cfg.Limits.Boot)
		out.Remedy = afresh
	}
	if e.Kind == spawner.Kernel {
		out = ofKernel(out, e.Phase == spawner.Running)
	}
	return out
}

// exitCause is why a job failed of which nothing is known but an exit code: that is its payload's where it had one.
func (e *Entry) exitCause() spawner.Cause {
	if e.Kind == spawner.Job && (e.Phase == spawner.Running || e.Remote) {
		return spawner.CauseExit
	}
	return ""
}

// farewell is the event that tells a workload's end.
func farewell(e Entry) spawner.Event {
	o := e.Outcome
	switch {
	case o == nil:
		return spawner.Event{Percent: 100, Message: "Stopped", Final: true}
	case o.Failed && !o.Canceled:
		return spawner.Event{Percent: 100, Message: sentence(o), Final: true, Failed: true}
	case e.Kind == spawner.Job && !o.Canceled:
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
