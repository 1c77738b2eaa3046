package engine

import (
	"cmp"
	"context"
	"io"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/backends"
	"slipway/spawner/diagnosis"
	"slipway/spawner/jobfiles"
)

// stager brings here what workloads have left that have ended, and says how they ended.
type stager struct {
	*Records
	agents   Agents
	limits   Limits
	interval time.Duration
}

// Staged is a source of files that does not grow: what came back of a run.
type Staged struct{ spawner.StagedOutput }

// Log returns what was printed from byte from on.
func (r Staged) Log(ctx context.Context, from int64, _ bool) (io.ReadCloser, error) {
	return r.StagedOutput.Log(ctx, from)
}

// source returns where to fetch what e has left, and its agent's last word: from the agent itself, or from what came
// back of it.
func (s *stager) source(ctx context.Context, e Entry, o spawner.Observation) (jobfiles.Source, control.Status, error) {
	if !cameBack(e, o) {
		return s.agents.Agent(e.ID), e.Status, nil
	}
	r, err := s.stagedOutput(ctx, e)
	if err != nil {
		return nil, control.Status{}, err
	}
	return Staged{r}, r.Status(), nil
}

// cameBack reports whether what e has left is to be had from its backend, where it stays until it is removed.
func cameBack(e Entry, o spawner.Observation) bool { return e.Remote && o.Existence == spawner.Exited }

func (s *stager) stagedOutput(ctx context.Context, e Entry) (spawner.StagedOutput, error) {
	backend, ok := s.backends.Named(e.Backend).(spawner.Remote)
	if !ok {
		return nil, errs.New(errs.Unavailable, "backend %s cannot be asked what came back of %s", e.Backend, e.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, backends.Patience)
	defer cancel()
	return backend.StagedOutput(ctx, e.ID)
}

// TailLines is how many last lines of its output an outcome keeps.
const TailLines = 40

// save brings here what came back of a run on another host: a session's changes, as an environment from which it starts
// the next time, and the output of a job that was ended. Nothing is removed there before it is here.
func (s *stager) save(ctx context.Context, e Entry) error {
	since, due := s.dueToKeep(e.ID)
	if !due {
		return nil
	}
	r, err := s.stagedOutput(ctx, e)
	switch {
	case errs.Is(err, errs.NotFound):
		r = nil
	case err != nil:
		return err
	}
	kept, err := s.Kind(e.Kind).Checkpoint(ctx, e, r, since)
	if err == nil && !kept {
		s.queue.AddAfter(e.ID, s.interval)
	}
	return err
}

// relieve notes that nothing keeps what a job has left from being kept any more.
func (r *Records) relieve(id spawner.ID) {
	tx := r.Begin()
	defer tx.End()
	if e := r.work[id]; e != nil {
		e.Hindrance = ""
	}
}

// Attempts are those at keeping what came back of a run.
type Attempts struct{ since, next time.Time }

// mostPause is the longest pause between two of them. Each is as long as all before took together.
const mostPause = time.Minute

// dueToKeep returns since when it is tried to keep what came back of a workload, and reports whether it is to be tried
// now; otherwise it sees to the next time.
func (r *Records) dueToKeep(id spawner.ID) (since time.Time, due bool) {
	tx := r.Begin()
	defer tx.End()
	e, now := r.work[id], time.Now()
	if e == nil {
		return now, false
	}
	k := &e.Keeping
	if now.Before(k.next) {
		r.queue.AddAfter(id, k.next.Sub(now))
		return k.since, false
	}
	if k.since.IsZero() {
		k.since = now
	}
	k.next = now.Add(min(max(now.Sub(k.since), retryAfter), mostPause))
	return k.since, true
}

// NotBack says that a session's changes are lost.
const NotBack = "what was changed in it since it started has not come back"

// lostAll reports whether a session had run, and was seen to have gone without a trace.
func (e *Entry) lostAll() bool {
	// of one that was evicted it was told then
	ran := e.Remote && e.Kind.HubServer() && e.Phase == spawner.Stopping && !e.Up.IsZero() && e.Evictions == 0
	return ran && !e.Saved && e.Unkept == "" && e.Want != spawner.WantGone
}

// NoteSaved notes that what a run has left is here: a session's changes in the environment digest, or nothing, with
// what was lost.
func (r *Records) NoteSaved(ctx context.Context, e Entry, digest, lost string) error {
	_, err := r.Change(ctx, e, func(e *Entry) {
		e.Saved, e.Unkept, e.Keeping, e.Kept = true, "", Attempts{}, cmp.Or(digest, e.Kept)
		e.Hindrance = ""
		if lost != "" && e.Outcome != nil {
			out := diagnosis.WithLost(*e.Outcome, lost)
			e.Outcome = &out
		}
	})
	return err
}

// collect fetches what an app that has exited leaves: its last lines, a job's whole log and files, and how it ended.
func (s *stager) collect(ctx context.Context, e Entry, o spawner.Observation) error {
	deadline := s.collectUntil(e)
	if !cameBack(e, o) { // that stays
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	from, status, err := s.source(ctx, e, o)
	switch {
	case errs.Is(err, errs.NotFound):
		return s.fail(ctx, e, s.whyFailed(e, o))
	case err != nil:
		s.Relay(e.ID, "What it has left cannot be fetched yet; trying again. If this lasts, tell your administrator", 0)
		return err
	}
	e.Status = status
	var out spawner.Outcome
	if e.Status.State == control.Exited {
		out = s.Kind(e.Kind).Exited(e, o)
	} else { // it has ended on another host without its agent
		out = s.whyFailed(e, o)
	}
	switch kept, err := s.Kind(e.Kind).Collect(ctx, e, from, deadline, &out); {
	case err != nil:
		return err
	case !kept:
		s.queue.AddAfter(e.ID, s.interval)
		return nil
	}
	s.relieve(e.ID)
	return s.fail(ctx, e, out)
}

// collectUntil returns the time until which fetching is repeated, counted from the first try.
func (r *Records) collectUntil(e Entry) time.Time {
	tx := r.Begin()
	defer tx.End()
	now := r.work[e.ID]
	if now == nil {
		return time.Now()
	}
	if now.Collecting.IsZero() {
		now.Collecting = time.Now()
	}
	if e.Want == spawner.WantRunning {
		return now.Collecting.Add(collectPatience)
	}
	return now.Collecting.Add(partingPatience)
}
