package inspect

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/place"
)

// Why explains what a workload waits for. Of one that does not wait it says so, and of a job that has ended, how.
func (i *Inspector) Why(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Explanation, error) {
	w, err := i.engine.Get(ctx, c, id)
	if err != nil {
		return spawner.Explanation{}, err
	}
	e, _ := i.engine.Snapshot(id)
	switch {
	case e.InBackoff() && !e.Held:
		return spawner.Explanation{
			Summary: "it " + i.engine.BackoffWords(e), Remedy: "cancel it if that would not help",
		}, nil
	case e.Hindrance != "":
		return spawner.Explanation{Summary: e.Hindrance, Remedy: "tell your administrator; `slipway jobs rm` gives the files up"}, nil
	}
	if remote, ok := i.engine.Configured(w.Backend).(spawner.Remote); ok && (e.WaitsElsewhere() || e.HeldElsewhere()) {
		return remote.Why(ctx, w)
	}
	return i.explain(w), nil
}

// explain says what is known here of why a workload does not run.
func (i *Inspector) explain(w spawner.Workload) spawner.Explanation {
	switch {
	case w.Held:
		return spawner.Explanation{Summary: "its owner has it wait", Remedy: "release it"}
	case w.AwaitsDependencies():
		return spawner.Explanation{Summary: "it " + i.awaited(&w)}
	case w.Phase == spawner.Pending && w.Want == spawner.WantRunning:
		return spawner.Explanation{Summary: "it waits on " + i.engine.At(w.Backend) + ": " + i.waitingFor(w)}
	case w.Phase == spawner.Running && w.Host != "":
		return spawner.Explanation{Summary: "it runs on " + w.Host}
	case w.Phase == spawner.Stopped && w.Kind.Batch():
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

func (i *Inspector) waitingFor(w spawner.Workload) string {
	switch q := i.Queue(w); {
	case q.Place == 0:
		return "it is about to start"
	case q.Lacks != "":
		return q.Lacks
	default:
		return fmt.Sprintf("%d are before it in line", q.Place-1)
	}
}

// awaitsBackend reports whether a start waits for a backend that does not answer.
func (i *Inspector) awaitsBackend(e engine.Entry) bool {
	return (e.Phase == spawner.Leased || e.Phase == spawner.Starting) &&
		e.Journal.Latest().Message == place.Silent(i.engine.At(e.Backend))
}

// Detail says in a line what a workload waits for, here or where it is queued or ends; empty when it does not wait, or
// nothing is known.
func (i *Inspector) Detail(w spawner.Workload) string {
	e, ok := i.engine.Snapshot(w.ID)
	switch {
	case !ok:
		return ""
	case e.Hindrance != "":
		return e.Hindrance
	case i.awaitsBackend(e):
		return e.Journal.Latest().Message
	case e.Claimable():
		return fmt.Sprintf("stands by to be %s's next kernel", e.Owner)
	case e.IsStandby():
		return fmt.Sprintf("is made ready to be %s's next kernel", e.Owner)
	case e.Held:
		return "its owner has it wait"
	case e.InBackoff():
		return i.engine.BackoffWords(e)
	case e.AwaitsDependencies():
		return i.awaited(&e.Workload)
	case e.WaitsElsewhere() || e.HeldElsewhere():
		return place.Queued(e.Seen, i.engine.At(e.Backend))
	case e.Remote && e.Phase == spawner.Stopping:
		return i.wayHome(e)
	case e.Remote && e.Phase.Active() && e.Phase != spawner.Pending && e.Seen.Returning:
		return i.onItsWay(e)
	case e.Remote && e.Kind.Session() && e.Phase == spawner.Running && e.Status.State == "":
		return "it runs on " + i.hostOf(e) + ", which does not reach the service now"
	case e.Remote && e.Phase == spawner.Running && !e.Pulse.Mute.IsZero():
		return fmt.Sprintf("no word from %s for %s", i.hostOf(e), time.Since(e.Pulse.Mute).Round(time.Second))
	default:
		return i.Queue(w).String()
	}
}

// onItsWay says what comes back of what has ended on another host.
func (i *Inspector) onItsWay(e engine.Entry) string {
	what := "what has been changed in it"
	if e.Kind.Batch() {
		what = "what it has left"
	}
	return "it has ended on " + i.hostOf(e) + ", and " + what + " is on its way back"
}

// wayHome says what there is still to do with a workload that is ended on another host; empty: nothing that lasts.
func (i *Inspector) wayHome(e engine.Entry) string {
	switch {
	case e.Want == spawner.WantGone:
		return ""
	case e.Moving && e.Kind.Batch() && e.Seen.Existence == spawner.Exited:
		return "what is left of it at " + i.engine.At(e.Backend) + " is being removed"
	case e.Seen.Existence == "":
		return i.engine.At(e.Backend) + " does not tell now what has become of it"
	case e.Seen.Returning:
		return i.onItsWay(e)
	case e.Seen.Existence == spawner.Up && i.engine.Resists(e):
		return "it is being ended on " + i.hostOf(e) + ", which " + i.engine.At(e.Backend) +
			" does not reach now: it is given up when its lease there is over"
	case e.Seen.Existence == spawner.Up && !e.Asked.IsZero():
		return "it ends on " + i.hostOf(e) + ", and brings back what it has"
	case e.Seen.Existence == spawner.Up:
		return "it is being ended on " + i.hostOf(e)
	case e.Seen.Existence == spawner.Exited && !e.Saved && e.Kind.Session():
		return "its changes are being kept"
	case e.Seen.Existence == spawner.Exited:
		return "what is left of it at " + i.engine.At(e.Backend) + " is being removed"
	default:
		return ""
	}
}

// hostOf names where a workload runs, as far as that is known.
func (i *Inspector) hostOf(e engine.Entry) string { return cmp.Or(e.Host, i.engine.At(e.Backend)) }

// awaited says in words what a job waits for.
func (i *Inspector) awaited(w *spawner.Workload) string {
	v := i.engine.View()
	defer v.End()
	return v.Sched().Awaited(w)
}

// HowFar says in a line what has happened last to a workload of the caller's; empty: nothing that is known.
func (i *Inspector) HowFar(c spawner.Caller, id spawner.ID) string {
	v := i.engine.View()
	defer v.End()
	e, err := v.Find(c, id)
	if err != nil {
		return ""
	}
	return e.Journal.Latest().Message
}
