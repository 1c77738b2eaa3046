package jobs

import (
	"context"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/lifecycle"
)

// kind returns what the engine asks about jobs.
func (j *Jobs) kind() engine.Kind {
	return engine.Kind{
		Role: lifecycle.Job, Postponed: true, Canceled: canceled,
		Run: j.keepLearning, Resynced: j.tidy, Count: j.count,
		SendInputs: j.sendInputs, Follow: j.followLog, Heard: j.hear,
		Exited: exited, Ended: ended, SliceUse: j.cfg.SliceUse, Collect: j.collect, Checkpoint: j.checkpoint, Released: j.measure,
		Retry: j.nextTry, EndBackoff: j.endBackoff, ClearDependency: j.clearDependency,
	}
}

// hear notes how far a job's payload says that it is.
func (j *Jobs) hear(_ engine.Tx, e *engine.Entry, s control.Status) func(context.Context) {
	if s.Progress != nil && s.Launch == e.Run() {
		e.Reported = s.Progress
	}
	return nil
}

// measure counts what a job keeps that has ended.
func (j *Jobs) measure(e engine.Entry) { j.engine.JobFiles().Measure(e.ID, e.Principal()) }

// nextTry has a job that has failed and was seen gone go back in line for its next try, in the turn that it had: after
// a while.
func (j *Jobs) nextTry(ctx context.Context, e engine.Entry) error {
	changed, err := j.engine.BackInLine(ctx, e, func(e *engine.Entry) {
		e.NextTry()
		e.BackingOff = j.engine.RetryPause() > 0
	})
	if changed && err == nil {
		j.announceTry(e.ID)
	}
	return err
}

// endBackoff has a job stand in line that has waited for long enough.
func (j *Jobs) endBackoff(ctx context.Context, e engine.Entry) error {
	changed, err := j.engine.Change(ctx, e, func(e *engine.Entry) { e.BackingOff = false })
	if changed && err == nil {
		j.announceTry(e.ID)
	}
	return err
}

// announceTry tells the owner of a job which try begins, and why.
func (j *Jobs) announceTry(id spawner.ID) {
	tx := j.engine.Begin()
	defer tx.End()
	if e := tx.Entry(id); e != nil {
		tx.Reopen(e)
		words := lifecycle.TryWords(e.Workload)
		if e.InBackoff() {
			words = "It " + j.engine.BackoffWords(*e)
		}
		tx.Note(e, spawner.Event{Percent: 0, Message: words})
	}
}

// count counts the active jobs of each backend that jobs may name, or that has some.
func (j *Jobs) count(v engine.View, s *spawner.Stats) {
	s.Jobs = map[string]map[spawner.Phase]int{}
	for _, name := range j.engine.JobBackends() {
		s.Jobs[name] = map[spawner.Phase]int{}
	}
	for _, e := range v.OfKind(spawner.Job) {
		if !e.Phase.Active() {
			continue
		}
		if s.Jobs[e.Backend] == nil { // the site has it no more
			s.Jobs[e.Backend] = map[spawner.Phase]int{}
		}
		s.Jobs[e.Backend][e.Phase]++
	}
}

// canceled returns the outcome of a job that its owner has ended.
func canceled(engine.Entry) spawner.Outcome {
	return spawner.Outcome{
		Canceled: true, Failed: true, ExitCode: 143, Reason: "stopped by its owner", Cause: spawner.CauseCanceled,
	}
}
