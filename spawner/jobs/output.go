package jobs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/engine"
	"slipway/spawner/jobfiles"
)

// slowest is the least rate, in bytes a second, at which an agent must take files.
const slowest = 1 << 20

// sendInputs gives an agent the job's input files.
func (j *Jobs) sendInputs(ctx context.Context, e engine.Entry) error {
	for _, name := range e.Spec.Inputs {
		path := filepath.Join(j.engine.JobFiles().InputDir(e.Workload), name)
		if err := sendInput(ctx, j.engine.Agent(e.ID), path); err != nil {
			return fmt.Errorf("send input file %s: %w", name, err)
		}
	}
	return nil
}

func sendInput(ctx context.Context, to engine.Agent, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, engine.AgentPatience+time.Duration(info.Size()/slowest)*time.Second)
	defer cancel()
	err = to.Put(ctx, filepath.Base(path), info.Size(), f)
	if errs.Is(err, errs.Conflict) {
		return nil // the agent has its app already: this is a repetition
	}
	return err
}

// followLog copies a job's output into its directory as it comes, going on where an earlier copy ended.
func (j *Jobs) followLog(ctx context.Context, id spawner.ID) {
	for ctx.Err() == nil {
		err := j.pullLog(ctx, id, j.engine.Agent(id), true)
		if err == nil {
			return // the app has exited and all is here
		}
		j.log.Debug("a job's log broke off", "id", id, "err", err)
		clock.Sleep(ctx, time.Second)
	}
}

// pullLog appends the agent's log to the copy here, one writer at a time.
func (j *Jobs) pullLog(ctx context.Context, id spawner.ID, from jobfiles.Source, follow bool) error {
	e, ok := j.engine.Snapshot(id)
	if !ok {
		return nil
	}
	select {
	case e.LogCopy <- struct{}{}:
		defer func() { <-e.LogCopy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return j.engine.JobFiles().CopyLog(ctx, id, from, follow, func() { // readers of the log look again
		tx := j.engine.Begin()
		defer tx.End()
		if e := tx.Entry(id); e != nil {
			tx.Announce(e)
		}
	})
}

// collect brings a job's log and files here, and says in its outcome what of them is missing.
func (j *Jobs) collect(
	ctx context.Context, e engine.Entry, from jobfiles.Source, until time.Time, o *spawner.Outcome,
) (kept bool, err error) {
	lost, err := j.fetch(ctx, e, from)
	switch {
	case err != nil && (e.Remote || jobfiles.Full(err) && e.Want == spawner.WantRunning):
		j.hinder(e, err)
		return false, nil
	case err != nil && time.Now().Before(until):
		return false, err
	case err != nil:
		lost = append(lost, err.Error())
	}
	_, missing := jobfiles.Wanted(e.Spec.Out, e.Status.Files)
	diagnosis.AddMissing(o, missing)
	diagnosis.AddLost(o, lost)
	// Without the last lines the outcome is still true.
	o.Tail, _ = j.engine.JobFiles().TailLog(e.ID, engine.TailLines)
	return true, nil
}

// fetch brings the rest of a job's log here, and its files. What can never be had is named in lost; an error is worth a
// repetition.
func (j *Jobs) fetch(ctx context.Context, e engine.Entry, from jobfiles.Source) (lost []string, err error) {
	if err := j.pullLog(ctx, e.ID, from, false); jobfiles.Permanent(err) && !jobfiles.Full(err) {
		lost = append(lost, fmt.Sprintf("the end of the log: %v", err))
	} else if err != nil {
		return nil, fmt.Errorf("fetch the log of %s: %w", e.ID, err)
	}
	files, _ := jobfiles.Wanted(e.Spec.Out, e.Status.Files)
	more, err := j.engine.JobFiles().Fetch(ctx, e.ID, from, files)
	if err != nil {
		return nil, err
	}
	return append(lost, more...), nil
}

// checkpoint brings the output here of a job that was ended on another host, unless that is done, or it begins anew.
func (j *Jobs) checkpoint(
	ctx context.Context, e engine.Entry, r spawner.StagedOutput, _ time.Time,
) (kept bool, err error) {
	collected := !e.Collecting.IsZero() && e.Hindrance == ""
	if r != nil && !collected && !(e.Moving && e.Want == spawner.WantRunning) {
		e.Status = r.Status()
		lost, err := j.fetch(ctx, e, engine.Staged{StagedOutput: r})
		if len(lost) > 0 {
			j.log.Warn("not all output of a job that was ended could be kept", "id", e.ID, "lost", lost)
		}
		if err != nil {
			j.hinder(e, err)
			return false, nil
		}
	}
	return true, j.engine.NoteSaved(ctx, e, "", "")
}

// hinder notes that what a job has left cannot be kept here now, and tells its owner and the administrator: it stays
// where it is until it can be, or until the job is removed. The time meanwhile is not that of its agent.
func (j *Jobs) hinder(e engine.Entry, why error) {
	tx := j.engine.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return
	}
	text := "your files cannot be copied now: they"
	if jobfiles.Full(why) {
		text = "the service's disk is full: your files"
	}
	if jobfiles.Full(why) && !now.Collecting.IsZero() {
		now.Collecting = time.Now()
	}
	text += " wait on " + e.Backend + " and are kept; nothing is lost"
	if now.Hindrance != text {
		j.log.Warn(
			"the output of a job cannot be kept now: it stays where it is", "id", e.ID, "owner", e.Owner, "backend",
			e.Backend, "err", why,
		)
		now.Hindrance = text
		tx.Note(now, spawner.Event{Percent: 50, Message: strings.ToUpper(text[:1]) + text[1:]})
	}
}

// exited returns the outcome of a job whose agent says that its payload has exited.
func exited(e engine.Entry, o spawner.Observation) spawner.Outcome {
	s := e.Status
	out := diagnosis.OfExit(s, o)
	out.ExitCode = cmp.Or(s.ExitCode, o.ExitCode)
	out.Failed, out.Signal = out.ExitCode != 0, diagnosis.SignalOf(out.ExitCode)
	out.Progress, out.Wall = s.Progress, ranFor(s)
	if out.Failed {
		out.Cause = spawner.CauseExit
	}
	if diagnosis.AddReason(&out, o); out.Reason == "" && out.Failed {
		out.Reason = diagnosis.ExitWords(e.Kind, out.ExitCode)
	}
	return out
}

// mostWall bounds what an agent may say of how long its app has run.
const mostWall = 10 * 365 * 24 * time.Hour

// ranFor returns for how many seconds an app has run by its agent's word, whatever its clock says; 0: it does not tell.
func ranFor(s control.Status) float64 {
	if d := s.Ended.Sub(s.Started); !s.Started.IsZero() && d > 0 && d < mostWall {
		return d.Seconds()
	}
	return 0
}

// ended fills in what is known of a job's end beside what o has.
func ended(e *engine.Entry, o spawner.Outcome) spawner.Outcome {
	if o.Wall == 0 && !e.Up.IsZero() {
		o.Wall = max(0, o.At.Sub(e.Up).Seconds()) // a clock may have been set back
	}
	if o.Progress == nil {
		o.Progress = e.Reported
	}
	if o = diagnosis.Of(o, e.Workload); o.Failed && o.Cause == "" {
		if o.Cause = spawner.CauseStart; e.Phase == spawner.Running || e.Phase == spawner.Stopping {
			o.Cause = spawner.CauseLost
		}
	}
	return o
}
