package engine

import (
	"cmp"
	"fmt"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
)

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
		out.Reason, out.Cause = fmt.Sprintf(
			"it is gone from %s: it was removed outside Slipway", m.At(e.Backend),
		), spawner.CauseLost
	case o.Existence == spawner.Absent || o.Existence == spawner.Created:
		out.Reason, out.Cause = "its container is gone: it was removed outside Slipway", spawner.CauseLost
	case app == control.Idle && e.Phase == spawner.Running:
		out.Reason = "its container was restarted outside Slipway"
	case e.Phase == spawner.Starting && e.Remote:
		out.Reason = fmt.Sprintf(
			"its agent on %s did not reach the service within %s", cmp.Or(e.Host, "its host"), m.cfg.Limits.BootRemote,
		)
		out.Remedy = "tell your administrator: the host may have no way to the service's address"
	case e.Phase == spawner.Starting:
		out.Reason = fmt.Sprintf("its agent did not come up within %s", m.cfg.Limits.Agent)
		out.Remedy = "tell your administrator: `slipway doctor` and the container's log say more"
	default:
		out.Reason = fmt.Sprintf("%s did not answer within %s", e.Kind.Title(), m.cfg.Limits.Boot)
		out.Remedy = diagnosis.StartFresh
	}
	if complete := m.Kind(e.Kind).Failed; complete != nil {
		out = complete(e, out)
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
