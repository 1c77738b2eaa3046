package server

import (
	"time"

	"slipway/hubapi"
	"slipway/internal/memsize"
	"slipway/spawner"
)

// wire makes the wire's form of a workload.
func (s *Server) wire(w spawner.Workload) hubapi.Workload {
	queue := s.cfg.Engine.Queue(w)
	out := hubapi.Workload{
		ID: string(w.ID), Kind: string(w.Kind), User: string(w.Owner), Name: w.Name, Backend: w.Backend, Phase: string(w.Phase), Want: string(w.Want),
		Launch: w.Launch, CPUs: w.Spec.Resources.CPUs, Memory: memsize.Format(w.Spec.Resources.Memory),
		Created: w.Created.UTC(), Since: w.Since.UTC(), Up: moment(w.Up), Waiting: queue.String(), Host: w.Host, Evictions: w.Evictions,
		GPU: w.Spec.GPU.String(), Slice: s.wireHeld(w),
		Standby: w.Standby != "",
	}
	if queue.Place == 0 { // it waits elsewhere, or not at all
		out.Waiting = s.cfg.Engine.Detail(w)
	} else {
		out.Queue = &hubapi.Queue{Place: queue.Place, Lacks: queue.Lacks, Estimate: seconds(queue.Estimate)}
	}
	if w.Outcome != nil {
		o := wireOutcome(*w.Outcome)
		out.Outcome = &o
	}
	return out
}

func wireOutcome(o spawner.Outcome) hubapi.Outcome {
	out := hubapi.Outcome{
		ExitCode: o.ExitCode, Reason: o.Reason, Remedy: o.Remedy, Tail: o.Tail, Failed: o.Failed, Canceled: o.Canceled, Expired: o.Expired,
		At: o.At.UTC(), MaxRSS: o.MaxRSS, CPU: o.CPU, Wall: o.Wall, Signal: o.Signal, Cause: hubapi.Cause(o.Cause),
	}
	if u := o.GPU; u != nil {
		out.GPU = &hubapi.SliceUse{Busy: u.Busy, Memory: u.Memory, Energy: u.Energy}
	}
	return out
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (s *Server) wireSession(w spawner.Workload) hubapi.Session {
	out := hubapi.Session{
		Workload: s.wire(w), Profile: w.Spec.Profile, Image: w.Spec.Image, Environment: w.Spec.Environment, Prefix: w.Spec.Prefix,
		SSH: s.sshLine(w), Active: moment(w.Active), Visited: moment(w.Visited), KeepUntil: moment(w.KeepUntil),
	}
	if p := s.cfg.Engine.Prospect(w); !p.At.IsZero() {
		out.Stops = &hubapi.Stops{At: p.At.UTC(), Why: p.Why, CanKeep: p.CanKeep, MaxKeep: p.MaxKeep.String(), Warning: p.Warning.String()}
	}
	for _, a := range s.cfg.Engine.Alerts(w) {
		out.Alerts = append(out.Alerts, hubapi.Alert{Cause: string(a.Cause), Message: a.Message, Remedy: a.Remedy, At: a.At.UTC()})
	}
	if page := s.hubs.Named(w.Hub).Page(w); page != "" {
		out.Page = &page
	}
	return out
}

// wireJob makes the wire's form of one job. What it runs is its owner's alone to read: there may be secrets in it.
func (s *Server) wireJob(c spawner.Caller, w spawner.Workload) hubapi.Job {
	out := s.wireListed(c, w)
	if o := w.Outcome; o != nil {
		out.Outcome.Tail = o.Tail
	}
	for _, o := range w.Attempts {
		out.Attempts = append(out.Attempts, wireOutcome(o))
	}
	if owns(c, w) {
		out.Argv = w.Spec.Argv
	}
	return out
}

// wireListed makes the wire's form of a job among others, of which there may be thousands: what is heavy is left out.
func (s *Server) wireListed(c spawner.Caller, w spawner.Workload) hubapi.Job {
	if w.Outcome != nil {
		o := *w.Outcome
		o.Tail, w.Outcome = "", &o
	}
	wired := s.wire(w)
	if keepsBack(c, w) {
		wired.Waiting = youHold
	}
	return hubapi.Job{
		Workload: wired, Environment: w.Spec.Environment, Session: string(w.Session),
		TimeLimit: w.Spec.TimeLimit.String(), State: jobState(&w), Requeued: w.Moves,
		Held: w.Held, Scan: w.Scan, Point: w.Point, Parameters: parametersOf(w),
		Attempt: w.Attempt + 1, Retries: w.Spec.Retries, Priority: w.Spec.Priority, After: orEmpty(w.After), Out: orEmpty(w.Spec.Out), Origin: string(w.Origin), Progress: s.progress(w.ID),
		Expires: moment(s.cfg.Engine.Expires(w)),
	}
}

// orEmpty has a list that is empty written as one.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// youHold tells the owner of a job why it waits; others are told that its owner has it wait.
const youHold = "you hold it"

func owns(c spawner.Caller, w spawner.Workload) bool { return c.User == w.Owner && c.Hub == w.Hub }

// keepsBack reports whether w waits because c has held it.
func keepsBack(c spawner.Caller, w spawner.Workload) bool {
	return w.Held && w.Phase == spawner.Pending && owns(c, w)
}

// jobState says a job's phase and outcome in one word. A job has ended when its files are here, not when its payload has.
func jobState(w *spawner.Workload) hubapi.State {
	switch {
	case w.Held && w.Phase == spawner.Stopping && w.Want == spawner.WantRunning: // it is being taken back
		return hubapi.JobPending
	case w.Phase == spawner.Running || w.Phase == spawner.Stopping:
		return hubapi.JobRunning
	case w.Phase.Active():
		return hubapi.JobPending
	case w.Outcome == nil || w.Outcome.Canceled:
		return hubapi.JobCanceled
	case w.Outcome.Failed:
		return hubapi.JobFailed
	default:
		return hubapi.JobDone
	}
}

func wireEvent(e spawner.Event) hubapi.Event {
	return hubapi.Event{Seq: e.Seq, Time: e.Time.UTC(), Percent: e.Percent, Message: e.Message, Final: e.Final, Failed: e.Failed}
}

// progress is what a job's payload says of how far it is; nil: nothing.
func (s *Server) progress(id spawner.ID) *hubapi.JobProgress {
	p := s.cfg.Engine.Progress(id)
	if p == nil {
		return nil
	}
	return &hubapi.JobProgress{Done: p.Done, Of: p.Of, Text: p.Text}
}
