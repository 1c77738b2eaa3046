package htcondor

import (
	"context"
	"maps"
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

// How long nobody looks after a look: lookRest at least, and lookFactor times as long as it took, but for mostRest.
// Whoever must know it anew waits for that too.
const (
	lookRest   = 250 * time.Millisecond
	lookFactor = 2
	mostRest   = 20 * time.Second
)

// queue looks at HTCondor's queue, or at its history, for all who want to know of some job: however many ask, there is
// one look at a time, and one that began late enough serves all. It is safe for concurrent use.
type queue struct {
	ask  func(ctx context.Context) ([]job, error)
	rest time.Duration // between two looks, at least

	mu      sync.Mutex // guards the fields below
	latest  *snapshot
	failure lapse
	idle    time.Time // from when on there may be another look
	look    *look
	news    map[spawner.ID]news
	missed  map[spawner.ID]absence
}

// absence is what looks in a row do not show.
type absence struct {
	since time.Time // when the first of them began
	last  []job     // as the one before showed it; none: no look of this run of the service did
}

// look is one that goes on, or is about to. Who asks while it has not begun yet is served by it.
type look struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when what follows is set
	begun  time.Time
	snap   *snapshot
	err    error
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

func newQueue(ask func(context.Context) ([]job, error), rest time.Duration) *queue {
	return &queue{ask: ask, rest: rest, news: map[spawner.ID]news{}, missed: map[spawner.ID]absence{}}
}

// since returns a look that began at t or later, or the error of one that has ended after t: while HTCondor does not
// answer, who is content with what was seen of late does not have it asked again and again. It returns when ctx ends;
// the look goes on for the others.
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
		l := q.lookLocked(ctx)
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

// lookLocked returns the look that goes on, or begins one. It ends by itself, as its command does, or when finish ends
// it.
func (q *queue) lookLocked(ctx context.Context) *look {
	if q.look == nil {
		all, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q.look = &look{cancel: cancel, done: make(chan struct{})}
		go q.run(all, q.look)
	}
	return q.look
}

// run looks, when it is time for it.
func (q *queue) run(ctx context.Context, l *look) {
	defer l.cancel()
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	pause(ctx, time.Until(idle))
	begun := time.Now()
	jobs, err := q.ask(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endLocked(l, begun, jobs, err)
}

// endLocked notes what a look has seen.
func (q *queue) endLocked(l *look, begun time.Time, jobs []job, err error) {
	defer close(l.done)
	now := time.Now()
	took := now.Sub(begun)
	q.look, q.idle = nil, now.Add(max(q.rest, min(lookFactor*took, mostRest)))
	if l.begun, l.err = begun, err; err != nil {
		q.failure = lapse{now, err}
		return
	}
	l.snap = &snapshot{begun: begun, took: took, jobs: map[spawner.ID][]job{}}
	for _, j := range jobs {
		l.snap.jobs[j.ID] = append(l.snap.jobs[j.ID], j)
	}
	q.compareLocked(q.latest, l.snap)
	q.latest = l.snap
}

// compareLocked notes which jobs a look lacks that the one before has shown, or that were submitted since. What is news
// no more is forgotten.
func (q *queue) compareLocked(before, now *snapshot) {
	if before != nil {
		for id, jobs := range before.jobs {
			if now.jobs[id] == nil {
				q.missed[id] = absence{now.begun, jobs}
			}
		}
	}
	for id, n := range q.news {
		if !n.at.Before(now.begun) {
			continue
		}
		if delete(q.news, id); now.jobs[id] == nil {
			q.missed[id] = absence{now.begun, []job{n.job}}
		}
	}
	for id := range now.jobs {
		delete(q.missed, id)
	}
}

// finish ends the look that goes on, and waits for it.
func (q *queue) finish() {
	q.mu.Lock()
	l := q.look
	q.mu.Unlock()
	if l != nil {
		l.cancel()
		<-l.done
	}
}

// cost returns how long the latest look took.
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
	delete(q.missed, j.ID)
}

// lacks returns since when looks lack a workload's job, of which one does that began at begun.
func (q *queue) lacks(id spawner.ID, begun time.Time) absence {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a, ok := q.missed[id]; ok {
		return a
	}
	a := absence{since: begun}
	if q.latest == nil || q.latest.jobs[id] == nil { // else it is there again already
		q.missed[id] = a
	}
	return a
}

// doubts returns the workloads whose jobs are missed.
func (q *queue) doubts() []spawner.ID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.missed))
}

// forget forgets that a workload's job was missed.
func (q *queue) forget(id spawner.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.missed, id)
}

// of returns the jobs of a workload as a look saw them that began at t or later, and when it began.
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
