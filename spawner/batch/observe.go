package batch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Observe tells what the latest look at the queue shows of a workload; a look that began before the workload was last
// submitted does not count. What has ended is told in the words of the worker, where it left any.
func (b *Backend) Observe(ctx context.Context, id spawner.ID) (spawner.Observation, error) {
	if err := b.knows(id); err != nil {
		return spawner.Observation{}, err
	}
	o, err := b.observe(ctx, id)
	if err != nil {
		return spawner.Observation{}, fmt.Errorf("observe %s: %w", id, err)
	}
	return o, nil
}

func (b *Backend) observe(ctx context.Context, id spawner.ID) (spawner.Observation, error) {
	if err := ctx.Err(); err != nil {
		return spawner.Observation{}, err
	}
	rec, known, err := b.records.Get(id)
	if err != nil {
		return spawner.Observation{}, err
	}
	jobs, begun, err := b.jobsOf(ctx, id, b.due(rec, b.recently()))
	if err != nil {
		return spawner.Observation{}, err
	}
	if j, ok := current(rec, jobs); ok {
		b.removeDoubles(ctx, id, j, jobs)
		if j.Over && known {
			return b.ends(rec, j), nil
		}
		o := j.Seen
		if known && o.Existence == spawner.Exited && !o.Evicted {
			b.box(rec).Explain(&o)
		}
		return o, nil
	}
	if known && rec.Lives() {
		return b.missed(ctx, rec, begun)
	}
	return b.rests(id, rec, known), nil
}

// jobsOf returns the jobs of a workload as a look shows them that began at t or later. Of those that are over only
// that of its current run counts: the batch system shows others too, until it forgets them.
func (b *Backend) jobsOf(ctx context.Context, id spawner.ID, t time.Time) ([]Job, time.Time, error) {
	jobs, begun, err := b.queue.Of(ctx, id, t)
	if err != nil || !slices.ContainsFunc(jobs, isOver) {
		return jobs, begun, err
	}
	rec, known, err := b.records.Get(id)
	if err != nil {
		return nil, begun, err
	}
	other := func(j Job) bool {
		own := known && j.Run == Encode(rec.Run) && (rec.Job == "" || rec.Job == j.Name)
		return j.Over && !own
	}
	return slices.DeleteFunc(slices.Clone(jobs), other), begun, nil
}

func isOver(j Job) bool { return j.Over }

// ends notes that the job of a run is over, before the batch system forgets it, and tells how it ended.
func (b *Backend) ends(rec Record, j Job) spawner.Observation {
	if rec.End == nil {
		end := j.End
		rec.Job, rec.End = j.Name, &end
		b.learn(rec)
	}
	return b.over(rec)
}

// over tells how a run ended. Where the batch system has no reason of its own, the worker's words count.
func (b *Backend) over(rec Record) spawner.Observation {
	o := rec.End.Observation()
	if o.Reason == "" && !o.Evicted {
		b.box(rec).Explain(&o)
	}
	return o
}

// recently is from when on a look is new enough for who only wants to see. It is so long ago that, where no look is,
// the next may begin at once: nobody waits for longer than a look takes.
func (b *Backend) recently() time.Time {
	return time.Now().Add(-max(b.cfg.PollEvery, (RestFactor+2)*b.queue.Cost()))
}

// current picks the job of a workload that counts: of its record's run, and of several the one that is known, or the
// first.
func current(rec Record, jobs []Job) (Job, bool) {
	if len(jobs) == 0 {
		return Job{}, false
	}
	rank := func(j Job) int {
		switch {
		case rec.Job == j.Name:
			return 0
		case j.Run == Encode(rec.Run) && j.live():
			return 1
		case j.live():
			return 2
		default:
			return 3
		}
	}
	return slices.MinFunc(jobs, func(x, y Job) int {
		if d := rank(x) - rank(y); d != 0 {
			return d
		}
		return byAge(x, y)
	}), true
}

// byAge orders jobs, those first that were submitted first.
func byAge(x, y Job) int { return cmp.Or(cmp.Compare(x.Number, y.Number), cmp.Compare(x.Task, y.Task)) }

// removeDoubles removes what else of a workload lives in the queue than the job of its record: what a command has
// submitted of which it was concluded that it had not.
func (b *Backend) removeDoubles(ctx context.Context, id spawner.ID, own Job, jobs []Job) {
	if len(jobs) < 2 {
		return
	}
	// as it is since the look: that shows the next run's job too where one was submitted meanwhile
	rec, known, err := b.records.Get(id)
	if err != nil || !known || rec.Job != own.Name {
		return
	}
	for _, j := range jobs {
		if j.Name == rec.Job || !j.live() || j.Leaving {
			continue
		}
		_, err := b.removals.Join(ctx, removal{removalKey{login: j.Login}, j.Name})
		b.log.Warn("a second job of a workload is removed", "id", id, "job", rec.Job, "second", j.Name, "error", err)
	}
}

// rests tells what is left of a workload that is not in the queue.
func (b *Backend) rests(id spawner.ID, r Record, known bool) spawner.Observation {
	switch {
	case !known && !b.records.Has(id):
		return spawner.Observation{Existence: spawner.Absent}
	case r.End != nil:
		return b.over(r)
	case r.Job != "":
		return spawner.Observation{Existence: spawner.Unknown} // a closer look tells
	default:
		return spawner.Observation{Existence: spawner.Created}
	}
}

// List returns all workloads of this instance that have a job in the queue or a directory here, but for one whose
// record cannot be read.
func (b *Backend) List(ctx context.Context) (map[spawner.ID]spawner.Existence, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list %s's jobs: %w", b.Title(), err)
	}
	ids, err := b.records.IDs() // before the queue: who is submitted in between is listed as what was last told of it
	if err != nil {
		return nil, fmt.Errorf("list %s's jobs: %w", b.Title(), err)
	}
	snap, err := b.queue.Since(ctx, b.recently())
	if err != nil {
		return nil, fmt.Errorf("list %s's jobs: %w", b.Title(), err)
	}
	all := map[spawner.ID]spawner.Existence{}
	var strays []Job
	for id := range snap.Jobs {
		ids = append(ids, id)
	}
	for _, id := range ids {
		if _, done := all[id]; done {
			continue
		}
		jobs, _, err := b.jobsOf(ctx, id, snap.Begun)
		if err != nil {
			return nil, fmt.Errorf("list %s's jobs: %w", b.Title(), err)
		}
		rec, known, err := b.records.Get(id)
		if err != nil {
			b.log.Warn("a job of "+b.Title()+"'s is not listed", "id", id, "error", err)
			continue
		}
		if j, ok := current(rec, jobs); ok {
			all[id] = j.Seen.Existence
			if !known {
				strays = append(strays, j)
			}
		} else if e := b.rests(id, rec, known).Existence; e != spawner.Absent {
			all[id] = e
		}
	}
	b.fewStrays(all, strays)
	return all, nil
}

// mostStrays is how many jobs without a record are told of at a time.
const mostStrays = 50

// fewStrays leaves of the jobs without a record here the oldest alone: who knows nothing of them either ends what is
// listed. Where the records were lost or damaged, there is time to see it.
func (b *Backend) fewStrays(all map[spawner.ID]spawner.Existence, strays []Job) {
	if len(strays) == 0 {
		return
	}
	slices.SortFunc(strays, byAge)
	b.log.Warn(
		"jobs in "+b.Title()+"'s queue have no record here; only the oldest are looked after at a time",
		"jobs", len(strays), "most", mostStrays,
		"oldest", strays[0].Name, "id", strays[0].ID,
	)
	for _, j := range strays[min(len(strays), mostStrays):] {
		delete(all, j.ID)
	}
}

// StagedOutput returns what a run has left that has ended.
func (b *Backend) StagedOutput(ctx context.Context, id spawner.ID) (spawner.StagedOutput, error) {
	if err := b.knows(id); err != nil {
		return nil, err
	}
	o, err := b.observe(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("look at what %s has left: %w", id, err)
	}
	rec, known, err := b.records.Get(id)
	if err != nil {
		return nil, err
	}
	if !known || o.Existence != spawner.Exited || o.Evicted {
		return nil, errs.New(errs.NotFound, "nothing of %s has come back", id)
	}
	return b.box(rec).Output(id)
}
