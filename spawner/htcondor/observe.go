package htcondor

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor/commands"
)

// ask looks at the queue.
func (b *Backend) ask(ctx context.Context) ([]job, error) {
	out, err := b.run(ctx, commands.Command{
		Name: "condor_q",
		Args: []string{"-allusers", "-json", "-attributes", attributes(), "-constraint", b.constraint()},
	})
	if err != nil {
		return nil, fmt.Errorf("ask HTCondor for its queue: %w", err)
	}
	return parseJobs(out, b.signet)
}

// historyLimit is how many jobs that have left the queue are looked through for one, the latest first.
const historyLimit = "20000"

// askPast looks at the jobs that have left the queue, the latest first.
func (b *Backend) askPast(ctx context.Context) ([]job, error) {
	out, err := b.run(ctx, commands.Command{Name: "condor_history", Args: []string{
		"-json", "-attributes", attributes(), "-constraint", b.constraint(), "-scanlimit", historyLimit,
	}})
	if err != nil {
		return nil, fmt.Errorf("ask HTCondor for its history: %w", err)
	}
	return parseJobs(out, b.signet)
}

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
	jobs, begun, err := b.queue.Of(ctx, id, b.due(rec, b.recently()))
	if err != nil {
		return spawner.Observation{}, err
	}
	if j, ok := current(rec, jobs); ok {
		b.removeDoubles(ctx, id, j, jobs)
		o := j.Observation()
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

// recently is from when on a look is new enough for who only wants to see. It is so long ago that, where no look is,
// the next may begin at once: nobody waits for longer than a look takes.
func (b *Backend) recently() time.Time {
	return time.Now().Add(-max(b.cfg.PollEvery, (batch.RestFactor+2)*b.queue.Cost()))
}

// current picks the job of a workload that counts: of its record's run, and of several the one that is known, or the
// first.
func current(rec batch.Record, jobs []job) (job, bool) {
	if len(jobs) == 0 {
		return job{}, false
	}
	rank := func(j job) int {
		switch {
		case rec.Job == j.Name():
			return 0
		case j.Launch == encode(rec.Run) && j.live():
			return 1
		case j.live():
			return 2
		default:
			return 3
		}
	}
	return slices.MinFunc(jobs, func(x, y job) int {
		if d := rank(x) - rank(y); d != 0 {
			return d
		}
		return cmp.Or(cmp.Compare(x.Cluster, y.Cluster), cmp.Compare(x.Proc, y.Proc))
	}), true
}

// removeDoubles removes what else of a workload lives in the queue than the job of its record: what a command has
// submitted of which it was concluded that it had not.
func (b *Backend) removeDoubles(ctx context.Context, id spawner.ID, own job, jobs []job) {
	if len(jobs) < 2 {
		return
	}
	// as it is since the look: that shows the next run's job too where one was submitted meanwhile
	rec, known, err := b.records.Get(id)
	if err != nil || !known || rec.Job != own.Name() {
		return
	}
	for _, j := range jobs {
		if j.Name() == rec.Job || !j.live() || j.Status == removed {
			continue
		}
		_, err := b.removals.Join(ctx, removal{removalKey{login: j.Login}, j.Name()})
		b.log.Warn("a second job of a workload is removed", "id", id, "job", rec.Job, "second", j.Name(), "error", err)
	}
}

// rests tells what is left of a workload that is not in the queue.
func (b *Backend) rests(id spawner.ID, r batch.Record, known bool) spawner.Observation {
	switch {
	case !known && !b.records.Has(id):
		return spawner.Observation{Existence: spawner.Absent}
	case r.End != nil:
		return r.End.Observation()
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
		return nil, fmt.Errorf("list HTCondor's jobs: %w", err)
	}
	ids, err := b.records.IDs() // before the queue: who is submitted in between is listed as what was last told of it
	if err != nil {
		return nil, fmt.Errorf("list HTCondor's jobs: %w", err)
	}
	snap, err := b.queue.Since(ctx, b.recently())
	if err != nil {
		return nil, fmt.Errorf("list HTCondor's jobs: %w", err)
	}
	all := map[spawner.ID]spawner.Existence{}
	var strays []job
	for id := range snap.Jobs {
		ids = append(ids, id)
	}
	for _, id := range ids {
		if _, done := all[id]; done {
			continue
		}
		jobs, _, err := b.queue.Of(ctx, id, snap.Begun)
		if err != nil {
			return nil, fmt.Errorf("list HTCondor's jobs: %w", err)
		}
		rec, known, err := b.records.Get(id)
		if err != nil {
			b.log.Warn("a job of HTCondor's is not listed", "id", id, "error", err)
			continue
		}
		if j, ok := current(rec, jobs); ok {
			all[id] = j.Observation().Existence
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
func (b *Backend) fewStrays(all map[spawner.ID]spawner.Existence, strays []job) {
	if len(strays) == 0 {
		return
	}
	slices.SortFunc(
		strays, func(x, y job) int { return cmp.Or(cmp.Compare(x.Cluster, y.Cluster), cmp.Compare(x.Proc, y.Proc)) },
	)
	b.log.Warn("jobs in HTCondor's queue have no record here; only the oldest are looked after at a time", "jobs", len(strays), "most", mostStrays,
		"oldest", strays[0].Name(), "id", strays[0].ID)
	for _, j := range strays[min(len(strays), mostStrays):] {
		delete(all, j.ID)
	}
}

func (b *Backend) box(r batch.Record) batch.Sandbox {
	return batch.Sandbox(filepath.Join(b.records.Dir(r.ID), boxDir))
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
