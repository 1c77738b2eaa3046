package batch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
)

// stopLook is the time between two looks at a job that is being removed.
const stopLook = 250 * time.Millisecond

// Stop removes a workload's job from the queue and waits until nothing of it runs. The job is asked to end and has for
// that what it was submitted with, Config.Grace: the batch system is told of none at its removal.
func (b *Backend) Stop(ctx context.Context, id spawner.ID, _ time.Duration) error {
	if err := b.knows(id); err != nil {
		return err
	}
	if err := b.stop(ctx, id); err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	return nil
}

func (b *Backend) stop(ctx context.Context, id spawner.ID) error {
	jobs, err := b.seek(ctx, id)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		return b.endMissed(id)
	}
	if !slices.ContainsFunc(jobs, Job.live) {
		return nil
	}
	if _, err := b.expel(ctx, id, jobs, Job.live, false); err != nil {
		return err
	}
	b.queue.Forget(id)
	if !slices.ContainsFunc(jobs, Job.begun) {
		return b.records.Drop(id) // it has only waited
	}
	return b.ended(id, End{Code: 143, Reason: "it was ended"})
}

// endMissed has a workload ended of which there is no job: nobody asks any more what became of it.
func (b *Backend) endMissed(id spawner.ID) error {
	rec, known, err := b.records.Get(id)
	if err != nil || !known || !rec.Lives() {
		return err
	}
	b.queue.Forget(id)
	b.log.Info("a job that is to end has left "+b.Title()+"'s queue before", "id", id, "job", rec.Job)
	return b.ended(id, End{Code: 143, Reason: "it had left " + b.Title() + "'s queue when it was to be ended"})
}

// ended notes how a job ended that has left the queue, unless that is known.
func (b *Backend) ended(id spawner.ID, e End) error {
	rec, known, err := b.records.Get(id)
	if err != nil || !known || rec.End != nil {
		return err
	}
	rec.End = &e
	b.learn(rec)
	return nil
}

// Remove removes a workload's job from the queue, whether it waits there or has ended, and its directory.
func (b *Backend) Remove(ctx context.Context, id spawner.ID) error {
	if err := b.knows(id); err != nil {
		return err
	}
	if err := b.remove(ctx, id); err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	return nil
}

func (b *Backend) remove(ctx context.Context, id spawner.ID) error {
	jobs, err := b.seek(ctx, id)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(jobs, func(j Job) bool { return j.Seen.Existence == spawner.Up }) {
		return errs.New(errs.Conflict, "it still runs").With("stop it first")
	}
	if err := b.clear(ctx, id, jobs); err != nil {
		return err
	}
	b.queue.Forget(id)
	return b.records.Drop(id)
}

// clear takes all jobs of a workload out of the queue, but those that are over.
func (b *Backend) clear(ctx context.Context, id spawner.ID, jobs []Job) error {
	_, err := b.expel(ctx, id, jobs, func(j Job) bool { return !j.Over }, false)
	return err
}

// expel removes jobs and waits until none of the workload's is left of which left says that it is; unbegun: only those
// that have not begun when the batch system comes to them. It returns the jobs that are left.
func (b *Backend) expel(
	ctx context.Context, id spawner.ID, jobs []Job, left func(Job) bool, unbegun bool,
) ([]Job, error) {
	for asked := map[string]bool{}; slices.ContainsFunc(jobs, left); {
		for _, j := range jobs {
			if !left(j) || asked[j.Name] || j.Leaving {
				continue
			}
			if _, err := b.removals.Join(ctx, removal{removalKey{j.Login, unbegun}, j.Name}); err != nil {
				return nil, err
			}
			asked[j.Name] = true
		}
		again, _, err := b.jobsOf(ctx, id, time.Now())
		if err != nil {
			return nil, err
		}
		if jobs = again; slices.ContainsFunc(jobs, left) && !clock.Sleep(ctx, max(stopLook, b.queue.Cost())) {
			return nil, errs.New(errs.Unavailable, "%s has not let go of the job yet: %w", b.Title(), ctx.Err())
		}
	}
	return jobs, nil
}

// removal is a job to be removed.
type removal struct {
	removalKey
	job string
}

// removalKey is what removals share that one command does.
type removalKey struct {
	login   string // whose the jobs are
	unbegun bool   // only those of them that have not begun
}

// mostRemoved is how many jobs one command names.
const mostRemoved = 1000

// rm removes all jobs that have gathered, those of one account by one command.
func (b *Backend) rm(ctx context.Context, all []*Call[removal]) {
	groups := map[removalKey][]*Call[removal]{}
	for _, w := range all {
		groups[w.Arg.removalKey] = append(groups[w.Arg.removalKey], w)
	}
	for key, group := range groups {
		for some := range slices.Chunk(group, mostRemoved) {
			names := make([]string, len(some))
			for i, w := range some {
				names[i] = w.Arg.job
			}
			err := b.system.Remove(ctx, key.login, names, key.unbegun)
			for _, w := range some {
				w.Err = err
			}
		}
	}
}
