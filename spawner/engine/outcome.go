package engine

import (
	"fmt"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/place"
)

// whyFailed says in plain words why a workload that should run is given up.
func (s *stager) whyFailed(e Entry, o spawner.Observation) spawner.Outcome {
	out, at := spawner.Outcome{Failed: true, ExitCode: max(o.ExitCode, 1), Remedy: o.Remedy}, place.Of(&e.Workload)
	switch app := appOf(e); {
	case s.prerequisites(&e.Workload).Lost:
		return s.forsaken(&e.Workload)
	case o.Existence == spawner.Held:
		out.Reason = fmt.Sprintf("%s holds it: %s", s.backends.At(e.Backend), o.Reason)
	case o.Existence == spawner.Exited && o.Reason != "":
		out.Reason, out.Tail, out.Signal, out.Cause = o.Reason, o.Tail, diagnosis.SignalOf(o.ExitCode), e.exitCause()
	case o.Existence == spawner.Exited:
		out.Signal, out.Cause = diagnosis.SignalOf(o.ExitCode), e.exitCause()
		out.Reason, out.Tail = fmt.Sprintf("its %s ended with exit code %d", at.Process(), o.ExitCode), o.Tail
	case !e.armed() && e.Phase != spawner.Running && (e.Phase != spawner.Booting || app == control.Idle):
		out.Reason, out.Remedy = "the service's secret key was changed while it was being started", "start it again"
	case o.Existence == spawner.Absent || o.Existence == spawner.Created:
		out.Reason, out.Cause = at.Gone(s.backends.At(e.Backend)), spawner.CauseLost
	case app == control.Idle && e.Phase == spawner.Running:
		out.Reason = "its container was restarted outside Slipway"
	case e.Phase == spawner.Starting:
		out.Reason, out.Remedy = at.Mute(s.limits.Agent, s.limits.BootRemote, e.Host)
	default:
		out.Reason = fmt.Sprintf("%s did not answer within %s", e.Kind.Title(), s.limits.Boot)
		out.Remedy = diagnosis.StartFresh
	}
	if complete := s.Kind(e.Kind).Failed; complete != nil {
		out = complete(e, out)
	}
	return out
}

// exitCause is why a job failed of which nothing is known but an exit code: that is its payload's where it had one.
func (e *Entry) exitCause() spawner.Cause {
	if e.Kind.Batch() && (e.Phase == spawner.Running || e.Remote) {
		return spawner.CauseExit
	}
	return ""
}
