package htcondor

import (
	"context"
	"slices"
	"sync"
	"time"

	"slipway/spawner"
)

// snapshot is one look at all jobs. The time at which it began decides what may be concluded from it.
type snapshot struct {
	begun time.Time
	took  time.Duration
	jobs  map[spawner.ID][]job
}

// queue looks at HTCondor's queue, or at its history, for all who want to know of some job: however many ask, there is one look at a
// time, and one that began late enough serves all. It is safe for concurrent use.
type queue struct {
	ask func(ctx context.Context) ([]job, error)

	mu      sync.Mutex // guards the fields below
	latest  *snapshot
	failure lapse
	look    *look
	news    map[spawner.ID]news
}

// look is one that goes on.
type look struct {
	begun time.Time
	done  chan struct{}
	snap  *snapshot
	err   error
}

// lapse is the last look that saw nothing.
type lapse struct {
	ended time.Time
	err   error
}

// news is what is known of a workload from having done it, since before any look could have seen it.
type news struct {
	at  time.Time
	job job
}

func newQueue(ask func(context.Context) ([]job, error)) *queue {
	return &queue{ask: ask, news: map[spawner.ID]news{}}
}

// since gives a look that began at t or later, or the error of one that has ended after t: while HTCondor does not answer, who is content
// with what was seen of late does not have it asked again and again.
func (q *queue) since(ctx context.Context, t time.Time) (*snapshot, error) {
	for {
		q.mu.Lock()
		if q.latest != nil && !q.latest.begun.Before(t) {
			defer q.mu.Unlock()
			return q.latest, nil
		}
		if q.failure.ended.After(t) {
			defer q.mu.Unlock()
			return nil, q.failure.err
		}
		l := q.look
		if l == nil {
			l = &look{begun: time.Now(), done: make(chan struct{})}
			q.look = l
			q.mu.Unlock()
			q.run(ctx, l)
			return l.snap, l.err
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.done:
		}
		if !l.begun.Before(t) {
			return l.snap, l.err
		}
	}
}

// run looks. It goes on when ctx ends: others wait for it.
func (q *queue) run(ctx context.Context, l *look) {
	jobs, err := q.ask(context.WithoutCancel(ctx))
	if err == nil {
		l.snap = &snapshot{begun: l.begun, took: time.Since(l.begun), jobs: map[spawner.ID][]job{}}
		for _, j := range jobs {
			l.snap.jobs[j.ID] = append(l.snap.jobs[j.ID], j)
		}
	}
	l.err = err
	q.mu.Lock()
	defer q.mu.Unlock()
	q.look = nil
	close(l.done)
	if l.snap == nil {
		q.failure = lapse{time.Now(), err}
		return
	}
	q.latest = l.snap
	for id, n := range q.news {
		if n.at.Before(l.begun) {
			delete(q.news, id)
		}
	}
}

// cost gives how long the latest look took.
func (q *queue) cost() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.latest == nil {
		return 0
	}
	return q.latest.took
}

// tell notes that a job was submitted.
func (q *queue) tell(j job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.news[j.ID] = news{time.Now(), j}
}

// of gives the jobs of a workload as a look saw them that began at t or later, and when it began.
func (q *queue) of(ctx context.Context, id spawner.ID, t time.Time) ([]job, time.Time, error) {
	s, err := q.since(ctx, t)
	if err != nil {
		return nil, time.Time{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n, ok := q.news[id]; ok && !n.at.Before(s.begun) {
		return append(slices.DeleteFunc(slices.Clone(s.jobs[id]), func(j job) bool { return j.name() == n.job.name() }), n.job), s.begun, nil
	}
	return s.jobs[id], s.begun, nil
}
