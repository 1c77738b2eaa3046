package convert

import (
	"encoding/json"

	"slipway/hubapi"
	"slipway/spawner"
)

// Job makes the API's form of one job. What it runs is its owner's alone to read: there may be secrets in it.
func (v *Converter) Job(c spawner.Caller, w spawner.Workload) hubapi.Job {
	out := v.listed(c, w)
	if o := w.Outcome; o != nil {
		out.Outcome.Tail = o.Tail
	}
	for _, o := range w.Attempts {
		out.Attempts = append(out.Attempts, outcome(o))
	}
	if Owns(c, w) {
		out.Argv = w.Spec.Argv
	}
	return out
}

// listed makes the API's form of a job among others, of which there may be thousands: what is heavy is left out.
func (v *Converter) listed(c spawner.Caller, w spawner.Workload) hubapi.Job {
	if w.Outcome != nil {
		o := *w.Outcome
		o.Tail, w.Outcome = "", &o
	}
	wired := v.workload(w)
	if KeepsBack(c, w) {
		wired.Waiting = YouHold
	}
	return hubapi.Job{
		Workload: wired, JobSpec: jobSpec(w),
		ScanPoint: hubapi.ScanPoint{Scan: w.Scan, Point: w.Point, Parameters: Parameters(w)},
		Session:   string(w.Session), TimeLimit: w.Spec.TimeLimit.String(), State: State(&w), Requeued: w.Moves,
		Held: w.Held, Attempt: w.Attempt + 1, Origin: string(w.Origin), Progress: v.Progress(w.ID),
		Expires: Moment(v.cfg.Engine.Expires(w)),
	}
}

// YouHold tells the owner of a job why it waits; others are told that its owner has it wait.
const YouHold = "you hold it"

func Owns(c spawner.Caller, w spawner.Workload) bool { return c.User == w.Owner && c.Hub == w.Hub }

// KeepsBack reports whether w waits because c has held it.
func KeepsBack(c spawner.Caller, w spawner.Workload) bool {
	return w.Held && w.Phase == spawner.Pending && Owns(c, w)
}

// State says a job's phase and outcome in one word. A job has ended when its files are here, not when its payload has.
func State(w *spawner.Workload) hubapi.State {
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

// Progress is what a job's payload says of how far it is; nil: nothing.
func (v *Converter) Progress(id spawner.ID) *hubapi.JobProgress {
	p := v.cfg.Engine.Progress(id)
	if p == nil {
		return nil
	}
	return &hubapi.JobProgress{Done: p.Done, Of: p.Of, Text: p.Text}
}

// Jobs makes the API's form of a list of jobs.
func (v *Converter) Jobs(c spawner.Caller, all []spawner.Workload) hubapi.Jobs {
	list := hubapi.Jobs{Jobs: make([]hubapi.Job, 0, len(all))}
	for _, w := range all {
		list.Jobs = append(list.Jobs, v.listed(c, w))
	}
	return list
}

// ParametersEnv tells a point of a scan its parameters, as one JSON object. The server knows them by it too.
const ParametersEnv = "SLIPWAY_PARAMETERS"

// Parameters returns what sets a point apart; nil of what is no point.
func Parameters(w spawner.Workload) map[string]string {
	if w.Scan == "" {
		return nil
	}
	parameters := map[string]string{}
	// written by this server, or nothing is known of them
	_ = json.Unmarshal([]byte(w.Spec.Env[ParametersEnv]), &parameters)
	return parameters
}
