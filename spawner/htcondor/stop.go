package htcondor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor/commands"
)

// stopLook is the time between two looks at a job that is being removed.
const stopLook = 250 * time.Millisecond

// Stop removes a workload's job from the queue and waits until nothing of it runs. The job is asked to end and has for
// that what it was submitted with, Config.Grace: HTCondor is told of none at its removal.
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
	if !slices.ContainsFunc(jobs, job.live) {
		return nil
	}
	if _, err := b.expel(ctx, id, jobs, job.live, false); err != nil {
		return err
	}
	b.queue.Forget(id)
	if !slices.ContainsFunc(jobs, job.ran) {
		return b.records.Drop(id) // it has only waited
	}
	return b.ended(id, batch.End{Code: 143, Reason: "it was ended"})
}

// endMissed has a workload ended of which there is no job: nobody asks any more what became of it.
func (b *Backend) endMissed(id spawner.ID) error {
	rec, known, err := b.records.Get(id)
	if err != nil || !known || !rec.Lives() {
		return err
	}
	b.queue.Forget(id)
	b.log.Info("a job that is to end has left HTCondor's queue before", "id", id, "job", rec.Job)
	return b.ended(id, batch.End{Code: 143, Reason: "it had left HTCondor's queue when it was to be ended"})
}

// ended notes how a job ended that has left the queue, unless that is known.
func (b *Backend) ended(id spawner.ID, e batch.End) error {
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
	if slices.ContainsFunc(jobs, func(j job) bool { return j.Observation().Existence == spawner.Up }) {
		return errs.New(errs.Conflict, "it still runs").With("stop it first")
	}
	if err := b.clear(ctx, id, jobs); err != nil {
		return err
	}
	b.queue.Forget(id)
	return b.records.Drop(id)
}

// clear takes all jobs of a workload out of the queue.
func (b *Backend) clear(ctx context.Context, id spawner.ID, jobs []job) error {
	_, err := b.expel(ctx, id, jobs, func(job) bool { return true }, false)
	return err
}

// expel removes jobs and waits until none of the workload's is left of which left says that it is; unbegun: only those
// that have not begun when HTCondor comes to them. It returns the jobs that are left.
func (b *Backend) expel(
	ctx context.Context, id spawner.ID, jobs []job, left func(job) bool, unbegun bool,
) ([]job, error) {
	for asked := map[string]bool{}; slices.ContainsFunc(jobs, left); {
		for _, j := range jobs {
			if !left(j) || asked[j.Name()] || j.Status == removed {
				continue
			}
			if _, err := b.removals.Join(ctx, removal{removalKey{j.Login, unbegun}, j.Name()}); err != nil {
				return nil, err
			}
			asked[j.Name()] = true
		}
		again, _, err := b.queue.Of(ctx, id, time.Now())
		if err != nil {
			return nil, err
		}
		if jobs = again; slices.ContainsFunc(jobs, left) && !clock.Sleep(ctx, max(stopLook, b.queue.Cost())) {
			return nil, errs.New(errs.Unavailable, "HTCondor has not let go of the job yet: %w", ctx.Err())
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
func (b *Backend) rm(ctx context.Context, all []*batch.Call[removal]) {
	groups := map[removalKey][]*batch.Call[removal]{}
	for _, w := range all {
		groups[w.Arg.removalKey] = append(groups[w.Arg.removalKey], w)
	}
	for key, group := range groups {
		for some := range slices.Chunk(group, mostRemoved) {
			err := b.rmSome(ctx, key, some)
			for _, w := range some {
				w.Err = err
			}
		}
	}
}

// rmSome removes jobs of one account. That one is not there any more, or has begun, is no error: who waits for it sees
// so.
func (b *Backend) rmSome(ctx context.Context, key removalKey, some []*batch.Call[removal]) error {
	dir, err := b.tokens.of(ctx, key.login)
	if err != nil {
		return err
	}
	args := make([]string, len(some))
	for i, w := range some {
		args[i] = w.Arg.job
	}
	if key.unbegun {
		args = []string{"-constraint", unbegunOf(args)}
	}
	_, err = b.run(ctx, commands.Command{Name: "condor_rm", Args: args, Tokens: dir})
	b.tokens.refused(key.login, err)
	if f, ok := commands.AsFailure(err); ok && f.Code > 0 && (strings.Contains(f.Stderr, "not found") ||
		key.unbegun && strings.Contains(f.Stderr, noneFits)) {
		return nil
	}
	return err
}

// noneFits is what condor_rm says when there is no job that fulfils its constraint.
const noneFits = "matching constraint"

// unbegunOf asks for those of some jobs that have not begun.
func unbegunOf(names []string) string {
	return fmt.Sprintf(`(NumShadowStarts ?: 0) == 0 && stringListMember(strcat(ClusterId, ".", ProcId), "%s")`, strings.Join(names, ","))
}
