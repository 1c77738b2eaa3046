package batch

import (
	"context"
	"errors"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
)

// pastEvery is how often at most the history is asked for jobs that are missed, and have not been found there.
const pastEvery = time.Minute

// missed tells of a job that a look does not show which began at begun. An access point that has just started again may
// know nothing of its jobs, so it takes a second look some time after the first, and then the word of the history.
// Where there is none, the job is gone when none of it can run any more.
func (b *Backend) missed(ctx context.Context, rec Record, begun time.Time) (spawner.Observation, error) {
	a := b.queue.MissingSince(rec.ID, begun)
	second := a.Since.Add(b.cfg.PollEvery)
	if begun.Before(second) {
		return b.doubtful(a, rec, errors.New("it is looked for again"))
	}
	if rec.Withdrawn {
		return spawner.Observation{Existence: spawner.Absent}, nil
	}
	past, _, err := b.past.Of(ctx, rec.ID, clock.Latest(second, time.Now().Add(-pastEvery)))
	if ctx.Err() != nil {
		return b.doubtful(a, rec, ctx.Err())
	}
	e, found := b.endOf(rec, past)
	if !found && begun.Before(a.Since.Add(b.cfg.Patience)) {
		if err == nil {
			err = errors.New("nor does its history")
		}
		return b.doubtful(a, rec, err)
	}
	rec.End = &e
	b.log.Info(
		"a job has left "+b.Title()+"'s queue", "id", rec.ID, "job", rec.Job, "reason", e.Reason, "missed", a.Since,
		"history", err,
	)
	b.learn(rec)
	b.queue.Forget(rec.ID)
	return b.over(rec), nil
}

// doubtful tells of a job that may be gone or not what was seen last of it, so that it can be ended meanwhile.
func (b *Backend) doubtful(a Absence, rec Record, cause error) (spawner.Observation, error) {
	words := b.Title() + "'s queue does not show it any more"
	j, ok := current(rec, a.Last)
	if !ok || !j.live() {
		return spawner.Observation{}, errs.New(errs.Unavailable, "%s: %w", words, cause)
	}
	o := j.Seen
	if o.Existence == spawner.Queued {
		o.Detail = words
	}
	return o, nil
}

// endOf returns how a run ended by what has left the queue, and whether that knows of it.
func (b *Backend) endOf(rec Record, past []Job) (End, bool) {
	for _, j := range past {
		if j.Run == Encode(rec.Run) {
			return j.End, true
		}
	}
	return End{
		Code: 1, Reason: "it is in " + b.Title() + "'s queue no more, nor in its history",
		Remedy: "ask your administrator, and start it again",
	}, false
}

// seek returns the jobs of a workload as a look shows them that begins now. That one which should be there is not takes
// a second look, when nothing can submit it any more.
func (b *Backend) seek(ctx context.Context, id spawner.ID) ([]Job, error) {
	jobs, _, err := b.jobsOf(ctx, id, time.Now())
	if err != nil || len(jobs) > 0 {
		return jobs, err
	}
	rec, known, err := b.records.Get(id)
	if err != nil || !known || rec.End != nil {
		return nil, err
	}
	if err := b.guard.Await(ctx); err != nil {
		return nil, err
	}
	if !clock.Sleep(ctx, b.cfg.PollEvery) {
		return nil, ctx.Err()
	}
	jobs, _, err = b.jobsOf(ctx, id, time.Now())
	return jobs, err
}
