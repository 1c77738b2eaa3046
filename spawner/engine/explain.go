package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"slipway/spawner"
)

// Why explains what a workload waits for. Of one that does not wait it says so, and of a job that has ended, how.
func (m *Manager) Why(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Explanation, error) {
	w, err := m.Get(ctx, c, id)
	if err != nil {
		return spawner.Explanation{}, err
	}
	e, _ := m.Snapshot(id)
	switch {
	case e.rests() && !e.Held:
		return spawner.Explanation{Summary: "it " + m.restWords(e), Remedy: "cancel it if that would not help"}, nil
	case e.hindrance != "":
		return spawner.Explanation{Summary: e.hindrance, Remedy: "tell your administrator; `slipway jobs rm` gives the files up"}, nil
	}
	if remote, ok := m.backend(w.Backend).(spawner.Remote); ok && (e.waitsElsewhere() || e.HeldElsewhere()) {
		return remote.Why(ctx, w)
	}
	return m.explain(w), nil
}

// explain says what is known here of why a workload does not run.
func (m *Manager) explain(w spawner.Workload) spawner.Explanation {
	switch {
	case w.Held:
		return spawner.Explanation{Summary: "its owner has it wait", Remedy: "release it"}
	case w.AwaitsDependencies():
		return spawner.Explanation{Summary: "it " + m.awaited(&w)}
	case w.Phase == spawner.Pending && w.Want == spawner.WantRunning:
		return spawner.Explanation{Summary: "it waits on " + m.At(w.Backend) + ": " + m.waitingFor(w)}
	case w.Phase == spawner.Running && w.Host != "":
		return spawner.Explanation{Summary: "it runs on " + w.Host}
	case w.Phase == spawner.Stopped && w.Kind == spawner.Job:
		return ended(w.Outcome)
	default:
		return spawner.Explanation{Summary: fmt.Sprintf("it does not wait: it is %s", w.Phase)}
	}
}

// ended says how a job came to its end.
func ended(o *spawner.Outcome) spawner.Explanation {
	switch {
	case o == nil || o.Canceled:
		return spawner.Explanation{Summary: "it does not wait: it was canceled"}
	case o.Failed:
		return spawner.Explanation{Summary: "it does not wait: it has failed: " + o.Reason, Remedy: o.Remedy}
	default:
		return spawner.Explanation{Summary: "it does not wait: it is done"}
	}
}

func (m *Manager) waitingFor(w spawner.Workload) string {
	switch q := m.Queue(w); {
	case q.Place == 0:
		return "it is about to start"
	case q.Lacks != "":
		return q.Lacks
	default:
		return fmt.Sprintf("%d are before it in line", q.Place-1)
	}
}

// Detail says in a line what a workload waits for, here or where it is queued or ends; empty when it does not wait, or
// nothing is known.
func (m *Manager) Detail(w spawner.Workload) string {
	e, ok := m.Snapshot(w.ID)
	switch {
	case !ok:
		return ""
	case e.hindrance != "":
		return e.hindrance
	case e.Claimable():
		return fmt.Sprintf("stands by to be %s's next kernel", e.Owner)
	case e.IsStandby():
		return fmt.Sprintf("is made ready to be %s's next kernel", e.Owner)
	case e.Held:
		return "its owner has it wait"
	case e.rests():
		return m.restWords(e)
	case e.AwaitsDependencies():
		return m.awaited(&e.Workload)
	case e.waitsElsewhere() || e.HeldElsewhere():
		return m.elsewhere(&e)
	case e.Remote && e.Phase == spawner.Stopping:
		return m.wayHome(e)
	case e.Remote && e.Phase.Active() && e.Phase != spawner.Pending && e.Seen.Returning:
		return m.onItsWay(e)
	case e.Remote && e.Kind != spawner.Job && e.Phase == spawner.Running && e.status.State == "":
		return "it runs on " + m.hostOf(e) + ", which does not reach the service now"
	case e.Remote && e.Phase == spawner.Running && !e.Pulse.Mute.IsZero():
		return fmt.Sprintf("no word from %s for %s", m.hostOf(e), time.Since(e.Pulse.Mute).Round(time.Second))
	default:
		return m.Queue(w).String()
	}
}

// elsewhere says how a batch system has a workload in its queue.
func (m *Manager) elsewhere(e *Entry) string {
	verb, why := "Queued at ", e.Seen.Detail
	if e.Seen.Existence == spawner.Held {
		verb, why = spawner.HeldAt, e.Seen.Reason
	}
	if why == "" {
		return verb + m.At(e.Backend)
	}
	return verb + m.At(e.Backend) + ": " + why
}

// onItsWay says what comes back of what has ended on another host.
func (m *Manager) onItsWay(e Entry) string {
	what := "what has been changed in it"
	if e.Kind == spawner.Job {
		what = "what it has left"
	}
	return "it has ended on " + m.hostOf(e) + ", and " + what + " is on its way back"
}

// wayHome says what there is still to do with a workload that is ended on another host; empty: nothing that lasts.
func (m *Manager) wayHome(e Entry) string {
	switch {
	case e.Want == spawner.WantGone:
		return ""
	case e.Moving && e.Kind == spawner.Job && e.Seen.Existence == spawner.Exited:
		return "what is left of it at " + m.At(e.Backend) + " is being removed"
	case e.Seen.Existence == "":
		return m.At(e.Backend) + " does not tell now what has become of it"
	case e.Seen.Returning:
		return m.onItsWay(e)
	case e.Seen.Existence == spawner.Up && m.resists(e):
		return "it is being ended on " + m.hostOf(e) + ", which " + m.At(e.Backend) + " does not reach now: it is given up when its lease there is over"
	case e.Seen.Existence == spawner.Up && !e.Asked.IsZero():
		return "it ends on " + m.hostOf(e) + ", and brings back what it has"
	case e.Seen.Existence == spawner.Up:
		return "it is being ended on " + m.hostOf(e)
	case e.Seen.Existence == spawner.Exited && !e.Saved && e.Kind != spawner.Job:
		return "its changes are being kept"
	case e.Seen.Existence == spawner.Exited:
		return "what is left of it at " + m.At(e.Backend) + " is being removed"
	default:
		return ""
	}
}

// resists reports whether a workload on another host runs on though its backend was asked to end it.
func (m *Manager) resists(e Entry) bool {
	patience := m.cfg.Limits.Grace + backendPatience
	switch {
	case !e.Asked.IsZero():
		patience += m.wayBack(e)
	case !e.Moving || e.Kind != spawner.Job:
		patience += m.askFor(e)
	}
	return m.inPhase(e) > patience
}

// hostOf names where a workload runs, as far as that is known.
func (m *Manager) hostOf(e Entry) string { return cmp.Or(e.Host, m.At(e.Backend)) }
