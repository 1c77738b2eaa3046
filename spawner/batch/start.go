package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Start submits a run of a workload, unless it is in the queue already. It does not wait for a machine: the workload is
// Queued then. A job that has ended is not submitted again under the same run. What an earlier run left is removed
// first.
func (b *Backend) Start(ctx context.Context, l spawner.Launch) error {
	if err := b.knows(l.ID); err != nil {
		return err
	}
	if err := b.start(ctx, l); err != nil {
		return fmt.Errorf("start %s: %w", l.ID, err)
	}
	return nil
}

func (b *Backend) start(ctx context.Context, l spawner.Launch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	there, err := b.adopt(ctx, l)
	if err != nil || there {
		return err
	}
	// not before: who looks closely at what there is takes long, and all others would wait
	arrived := b.submits.Expect()
	defer arrived()
	s, err := b.prepare(l)
	if err != nil {
		return errors.Join(b.noRoom(err), b.records.Drop(l.ID))
	}
	arrived()
	if s.warning != "" {
		l.Report(b.Title()+": "+s.warning, -1)
	}
	if _, err := b.submits.Join(ctx, s); err != nil {
		return b.undo(s, err)
	}
	s.rec.Job = s.job.Name
	b.learn(s.rec)
	return nil
}

// noRoom has it wait that a disk here is full.
func (b *Backend) noRoom(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errs.New(
			errs.NoCapacity, "the disk is full on which the service keeps what is sent to %s: %w", b.Title(), err,
		).With("tell your administrator")
	}
	return err
}

// submission is one workload's part of a batch.
type submission struct {
	rec     Record
	head    string
	warning string
	gid     int
	entry   Entry

	job       Job  // of the batch system; set by who submits
	uncertain bool // whether it is in the queue is not known
}

// undo removes what a start has left of which it is known that it is not in the queue. The next start looks closely at
// all else.
func (b *Backend) undo(s *submission, err error) error {
	if s.uncertain {
		return errs.New(errs.Unavailable, "whether %s has taken it is not known: %w", b.Title(), err)
	}
	return errors.Join(err, b.records.Drop(s.rec.ID))
}

// adopt reports whether this run needs no submission. If it does, nothing of the workload is left: what there was is
// removed.
func (b *Backend) adopt(ctx context.Context, l spawner.Launch) (bool, error) {
	rec, known, err := b.records.Get(l.ID)
	if err != nil {
		return false, err
	}
	jobs, err := b.there(ctx, l.ID, known)
	if err != nil {
		return false, err
	}
	if !known {
		if rec, known, err = b.restore(l, jobs); err != nil {
			return false, err
		}
	}
	same := known && rec.Run == l.Run()
	for _, j := range jobs {
		if same && j.Run == Encode(l.Run()) && (!rec.Session || j.live()) {
			rec.Job = j.Name
			b.learn(rec)
			return true, nil
		}
	}
	switch {
	case same && !rec.Session:
		if ended, err := b.hasRun(ctx, rec); ended || err != nil {
			return ended, err
		}
	case same && rec.Lives() && len(jobs) == 0:
		return false, errs.New(
			errs.Unavailable, "%s's queue does not show the job %s any more, which may run yet", b.Title(), rec.Job,
		)
	}
	if err := b.clear(ctx, l.ID, jobs); err != nil {
		return false, err
	}
	return false, b.records.Drop(l.ID)
}

// there returns the jobs of a workload that is to be started. Of one that is not known here a look since the service
// came up shows what a crash of the host has taken the record of.
func (b *Backend) there(ctx context.Context, id spawner.ID, known bool) ([]Job, error) {
	if known {
		return b.seek(ctx, id)
	}
	jobs, _, err := b.jobsOf(ctx, id, b.born)
	return jobs, err
}

// restore makes the record anew of a run that is in the queue, with its sandbox here: it was lost, or is damaged.
func (b *Backend) restore(l spawner.Launch, jobs []Job) (Record, bool, error) {
	i := slices.IndexFunc(jobs, func(j Job) bool { return j.Run == Encode(l.Run()) && j.live() })
	if i < 0 {
		return Record{}, false, nil
	}
	if _, err := os.Lstat(string(b.cfg.Box(l.ID))); err != nil {
		return Record{}, false, nil
	}
	o, err := b.ownerOf(l)
	if err != nil || o.login != jobs[i].Login {
		return Record{}, false, err
	}
	rec, err := b.recordOf(l, o)
	if err != nil {
		return Record{}, false, err
	}
	rec.Job = jobs[i].Name
	b.log.Warn("the record of a job in "+b.Title()+"'s queue is made anew", "id", l.ID, "job", rec.Job)
	return rec, true, b.records.Put(rec)
}

// hasRun reports whether a job that is not in the queue has been there: then this run is over. A system without
// a history cannot tell: what no look shows has not run then.
func (b *Backend) hasRun(ctx context.Context, rec Record) (bool, error) {
	if rec.Job != "" {
		return true, nil
	}
	past, _, err := b.past.Of(ctx, rec.ID, time.Now())
	if ctx.Err() != nil || errs.Is(err, errs.Unavailable) {
		return false, errors.Join(ctx.Err(), err)
	}
	if err != nil {
		b.log.Warn(
			b.Title()+"'s history tells nothing of a job that may have been submitted", "id", rec.ID, "error", err,
		)
		return false, nil
	}
	i := slices.IndexFunc(past, func(j Job) bool { return j.Run == Encode(rec.Run) })
	if i < 0 {
		return false, nil
	}
	e := past[i].End
	rec.Job, rec.End = past[i].Name, &e
	b.learn(rec)
	return true, nil
}

// prepare makes the sandbox and the record.
func (b *Backend) prepare(l spawner.Launch) (*submission, error) {
	for _, name := range l.Spec.Inputs {
		if err := control.CheckName(name); err != nil {
			return nil, err
		}
	}
	o, err := b.ownerOf(l)
	if err != nil {
		return nil, err
	}
	rec, err := b.recordOf(l, o)
	if err != nil {
		return nil, err
	}
	told, err := b.system.Describe(l.Workload, rec)
	if err != nil {
		return nil, err
	}
	if err := passable(b.records.Dir(l.ID)); err != nil {
		return nil, err
	}
	contents := Contents{Launch: l, Plan: b.plan(l, rec), UID: o.uid, GID: o.gid, Sync: b.sync}
	if err := b.box(rec).Fill(contents); err != nil {
		return nil, err
	}
	s := &submission{rec: rec, head: told.Head, warning: told.Warning, gid: o.gid, entry: b.entryOf(rec, l.Workload)}
	return s, b.records.Put(rec)
}

func (b *Backend) entryOf(r Record, w spawner.Workload) Entry {
	e := Entry{ID: w.ID, Run: Encode(r.Run), Sandbox: b.cfg.Box(w.ID), Point: -1}
	if w.Scan != "" {
		e.Point = w.Point
	}
	e.Mark = b.marker.Mark(r.Login, string(w.ID), e.Run)
	return e
}

// learn notes what was learnt of a run. That a disk is full does not undo it: the batch system can be asked again after a
// restart.
func (b *Backend) learn(r Record) {
	if err := b.records.Amend(r); err != nil {
		b.log.Warn("what was learnt of a job is not saved", "id", r.ID, "job", r.Job, "error", err)
		b.records.Hold(r)
	}
}
