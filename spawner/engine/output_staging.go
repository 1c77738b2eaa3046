package engine

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/jobfiles"
	"slipway/spawner/launch"
)

// staged are a source that does not grow.
type staged struct{ spawner.StagedOutput }

func (r staged) Log(ctx context.Context, from int64, _ bool) (io.ReadCloser, error) {
	return r.StagedOutput.Log(ctx, from)
}

// source returns where to fetch what e has left, and its agent's last word: from the agent itself, or from what came
// back of it.
func (m *Manager) source(ctx context.Context, e Entry, o spawner.Observation) (jobfiles.Source, control.Status, error) {
	if !cameBack(e, o) {
		return m.cfg.Agents.Agent(e.ID), e.Status, nil
	}
	r, err := m.stagedOutput(ctx, e)
	if err != nil {
		return nil, control.Status{}, err
	}
	return staged{r}, r.Status(), nil
}

// cameBack reports whether what e has left is to be had from its backend, where it stays until it is removed.
func cameBack(e Entry, o spawner.Observation) bool { return e.Remote && o.Existence == spawner.Exited }

func (m *Manager) stagedOutput(ctx context.Context, e Entry) (spawner.StagedOutput, error) {
	backend, ok := m.backend(e.Backend).(spawner.Remote)
	if !ok {
		return nil, errs.New(errs.Unavailable, "backend %s cannot be asked what came back of %s", e.Backend, e.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, backendPatience)
	defer cancel()
	return backend.StagedOutput(ctx, e.ID)
}

// tailLines is how many last lines of its output an outcome keeps.
const tailLines = 40

// tailOf returns the last lines of what an app has printed.
func (m *Manager) tailOf(ctx context.Context, e Entry, from jobfiles.Source) (string, error) {
	if e.Kind == spawner.Job {
		return m.files.TailLog(e.ID, tailLines) // of the copy here
	}
	r, err := from.Log(ctx, max(0, e.Status.LogSize-jobfiles.TailBytes), false)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return jobfiles.Tail(r, tailLines)
}

// keepPatience is for how long keeping a session's changes is repeated that does not work, counted from the first try:
// they may have taken long to come back.
const keepPatience = 10 * time.Minute

// save brings here what came back of a run on another host: a session's changes, as an environment from which it starts
// the next time, and the output of a job that was ended. Nothing is removed there before it is here.
func (m *Manager) save(ctx context.Context, e Entry) error {
	since, due := m.dueToKeep(e.ID)
	if !due {
		return nil
	}
	r, err := m.stagedOutput(ctx, e)
	switch {
	case errs.Is(err, errs.NotFound):
		return m.noteLost(ctx, e, notBack)
	case err != nil:
		return err
	case e.Kind == spawner.Job:
		if err := m.saveJob(ctx, e, r); err != nil {
			m.hinder(e, err)
			return nil
		}
		return m.noteSaved(ctx, e, "", "")
	default:
		return m.saveChanges(ctx, e, r, since)
	}
}

// saveChanges keeps what a session has changed, which is tried since a time.
func (m *Manager) saveChanges(ctx context.Context, e Entry, r spawner.StagedOutput, since time.Time) error {
	changes, err := r.Changes(ctx)
	switch {
	case errs.Is(err, errs.NotFound):
		return m.noteLost(ctx, e, notBack)
	case errs.Is(err, errs.Invalid):
		return m.noteLost(ctx, e, "what was changed in it since it started is lost: "+Brief(err))
	case err != nil:
		return err
	}
	defer changes.Close()
	m.relay(e.ID, "Keeping your changes", 0)
	digest, err := m.cfg.Keep(ctx, launch.WithEnvironment(e.Workload), changes)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return m.noteSaved(ctx, e, digest, "")
	case jobfiles.Permanent(err) || errs.Is(err, errs.OverQuota) || time.Since(since) >= keepPatience:
		return m.noteUnkept(ctx, e, err)
	default:
		m.relay(e.ID, "Your changes cannot be kept yet; trying again", 0)
		return err
	}
}

// saveJob brings a job's output here, unless that is done, or it begins anew.
func (m *Manager) saveJob(ctx context.Context, e Entry, r spawner.StagedOutput) error {
	if !e.collecting.IsZero() && e.Hindrance == "" || e.Moving && e.Want == spawner.WantRunning {
		return nil
	}
	e.Status = r.Status()
	lost, err := m.collectJob(ctx, e, staged{r})
	if len(lost) > 0 {
		m.log.Warn("not all output of a job that was ended could be kept", "id", e.ID, "lost", lost)
	}
	return err
}

// hinder notes that what a job has left cannot be kept here now, tells its owner and the administrator, and sees to the
// next try: it stays where it is until it can be, or until the job is removed. The time meanwhile is not that of its
// agent.
func (m *Manager) hinder(e Entry, why error) {
	m.queue.AddAfter(e.ID, m.cfg.Interval)
	tx := m.Begin()
	defer tx.End()
	now := m.work[e.ID]
	if now == nil || now.Rev != e.Rev {
		return
	}
	text := "your files cannot be copied now: they"
	if jobfiles.Full(why) {
		text = "the service's disk is full: your files"
	}
	if jobfiles.Full(why) && !now.collecting.IsZero() {
		now.collecting = time.Now()
	}
	text += " wait on " + e.Backend + " and are kept; nothing is lost"
	if now.Hindrance != text {
		m.log.Warn(
			"the output of a job cannot be kept now: it stays where it is", "id", e.ID, "owner", e.Owner, "backend",
			e.Backend, "err", why,
		)
		now.Hindrance = text
		tx.Note(now, spawner.Event{Percent: 50, Message: strings.ToUpper(text[:1]) + text[1:]})
	}
}

// relieve notes that nothing keeps what a job has left from being kept any more.
func (m *Manager) relieve(id spawner.ID) {
	tx := m.Begin()
	defer tx.End()
	if e := m.work[id]; e != nil {
		e.Hindrance = ""
	}
}

// attempts are those at keeping what came back of a run.
type attempts struct{ since, next time.Time }

// mostPause is the longest pause between two of them. Each is as long as all before took together.
const mostPause = time.Minute

// dueToKeep returns since when it is tried to keep what came back of a workload, and reports whether it is to be tried
// now; otherwise it sees to the next time.
func (m *Manager) dueToKeep(id spawner.ID) (since time.Time, due bool) {
	tx := m.Begin()
	defer tx.End()
	e, now := m.work[id], time.Now()
	if e == nil {
		return now, false
	}
	k := &e.keeping
	if now.Before(k.next) {
		m.queue.AddAfter(id, k.next.Sub(now))
		return k.since, false
	}
	if k.since.IsZero() {
		k.since = now
	}
	k.next = now.Add(min(max(now.Sub(k.since), retryAfter), mostPause))
	return k.since, true
}

const notBack = "what was changed in it since it started has not come back"

// lostAll reports whether a session had run, and was seen to have gone without a trace.
func (e *Entry) lostAll() bool {
	// of one that was evicted it was told then
	ran := e.Remote && e.Kind.HubServer() && e.Phase == spawner.Stopping && !e.Up.IsZero() && e.Evictions == 0
	return ran && !e.Saved && e.Unkept == "" && e.Want != spawner.WantGone
}

// noteLost notes that what a session had changed is not to be had, and tells its user.
func (m *Manager) noteLost(ctx context.Context, e Entry, lost string) error {
	if e.Kind == spawner.Job || e.Up.IsZero() {
		return m.noteSaved(ctx, e, "", "")
	}
	if e.Outcome == nil { // it begins anew
		m.relay(e.ID, "What"+strings.TrimPrefix(lost, "what"), 0)
	}
	return m.noteSaved(ctx, e, "", lost)
}

// noteSaved notes that what a run has left is here: a session's changes in the environment digest, or nothing, with
// what was lost.
func (m *Manager) noteSaved(ctx context.Context, e Entry, digest, lost string) error {
	_, err := m.change(ctx, e.ID, e.Rev, func(e *Entry) {
		e.Saved, e.Unkept, e.keeping, e.Kept = true, "", attempts{}, cmp.Or(digest, e.Kept)
		e.Hindrance = ""
		if lost != "" && e.Outcome != nil {
			out := diagnosis.WithLost(*e.Outcome, lost)
			e.Outcome = &out
		}
	})
	return err
}

// noteUnkept has a session end whose changes cannot be kept now. They stay where they are until it is started again.
func (m *Manager) noteUnkept(ctx context.Context, e Entry, why error) error {
	m.log.Warn("the changes of a session cannot be kept", "id", e.ID, "owner", e.Owner, "err", why)
	tx := m.Begin()
	defer tx.End()
	now := m.work[e.ID]
	if now == nil || now.Rev != e.Rev {
		return nil
	}
	out := diagnosis.FromError(fmt.Errorf("what was changed in it could not be kept: %w", why))
	if e.Outcome != nil && e.Phase == spawner.Stopping {
		out.Reason = e.Outcome.Reason + "; " + out.Reason
	}
	if out.Remedy != "" {
		out.Remedy += ", then start it again: "
	}
	out.Remedy += "nothing is lost yet, and the next start tries again; “Start fresh” discards all that you have changed"
	return tx.Change(ctx, now, func(e *Entry) {
		e.Unkept, e.keeping = why.Error(), attempts{}
		e.finish(out)
	})
}
