package htcondor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// stopLook is the time between two looks at a job that is being removed.
const stopLook = 250 * time.Millisecond

// Stop removes a workload's job from the queue and waits until nothing of it runs. The job is asked to end and has for that what it was
// submitted with, Config.Grace: HTCondor is told of none at its removal.
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
		return b.settle(id)
	}
	if !slices.ContainsFunc(jobs, job.live) {
		return nil
	}
	if err := b.expel(ctx, id, jobs, job.live); err != nil {
		return err
	}
	b.queue.forget(id)
	if !slices.ContainsFunc(jobs, job.ran) {
		return b.shelf.drop(id) // it has only waited
	}
	return b.ended(id, end{Code: 143, Reason: "it was ended"})
}

// settle has a workload ended of which there is no job: nobody asks any more what became of it.
func (b *Backend) settle(id spawner.ID) error {
	rec, known, err := b.shelf.get(id)
	if err != nil || !known || !rec.lives() {
		return err
	}
	b.queue.forget(id)
	b.log.Info("a job that is to end has left HTCondor's queue before", "id", id, "job", rec.Job)
	return b.ended(id, end{Code: 143, Reason: "it had left HTCondor's queue when it was to be ended"})
}

// ended notes how a job ended that has left the queue, unless that is known.
func (b *Backend) ended(id spawner.ID, e end) error {
	rec, known, err := b.shelf.get(id)
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
	if slices.ContainsFunc(jobs, func(j job) bool { return j.observation().Existence == spawner.Up }) {
		return errs.New(errs.Conflict, "it still runs").With("stop it first")
	}
	if err := b.clear(ctx, id, jobs); err != nil {
		return err
	}
	b.queue.forget(id)
	return b.shelf.drop(id)
}

// clear takes all jobs of a workload out of the queue.
func (b *Backend) clear(ctx context.Context, id spawner.ID, jobs []job) error {
	return b.expel(ctx, id, jobs, func(job) bool { return true })
}

// expel removes jobs and waits until none of the workload's is left of which left says that it is.
func (b *Backend) expel(ctx context.Context, id spawner.ID, jobs []job, left func(job) bool) error {
	for asked := map[string]bool{}; slices.ContainsFunc(jobs, left); {
		for _, j := range jobs {
			if !left(j) || asked[j.name()] || j.Status == removed {
				continue
			}
			if _, err := b.removals.join(ctx, removal{j.Login, j.name()}); err != nil {
				return err
			}
			asked[j.name()] = true
		}
		again, _, err := b.queue.of(ctx, id, time.Now())
		if err != nil {
			return err
		}
		if jobs = again; slices.ContainsFunc(jobs, left) && !pause(ctx, max(stopLook, b.queue.cost())) {
			return errs.New(errs.Unavailable, "HTCondor has not let go of the job yet: %w", ctx.Err())
		}
	}
	return nil
}

// removal is a job to be removed, and whose it is.
type removal struct{ login, job string }

// mostRemoved is how many jobs one command names.
const mostRemoved = 1000

// rm removes all jobs that have gathered, those of one account by one command.
func (b *Backend) rm(ctx context.Context, all []*wish[removal]) {
	groups := map[string][]*wish[removal]{}
	for _, w := range all {
		groups[w.what.login] = append(groups[w.what.login], w)
	}
	for login, group := range groups {
		for some := range slices.Chunk(group, mostRemoved) {
			err := b.rmSome(ctx, login, some)
			for _, w := range some {
				w.err = err
			}
		}
	}
}

// rmSome removes jobs of one account. That one is not there any more is no error: who waits for it sees so.
func (b *Backend) rmSome(ctx context.Context, login string, some []*wish[removal]) error {
	dir, err := b.tokens.of(ctx, login)
	if err != nil {
		return err
	}
	args := make([]string, len(some))
	for i, w := range some {
		args[i] = w.what.job
	}
	_, err = b.run(ctx, command{name: "condor_rm", args: args, tokens: dir})
	b.tokens.refused(login, err)
	if f, ok := asFailure(err); ok && f.Code > 0 && strings.Contains(f.Stderr, "not found") {
		return nil
	}
	return err
}
