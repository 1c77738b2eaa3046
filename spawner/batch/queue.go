package batch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
)

// Snapshot is one look at all jobs. The time at which it began decides what may be concluded from it.
type Snapshot struct {
	Begun time.Time
	took  time.Duration
	Jobs  map[spawner.ID][]Job
}

// How long nobody looks after a look: MinRest at least, and RestFactor times as long as it took, but mostRest at most.
// A caller who needs a new look waits for that too.
const (
	MinRest    = 250 * time.Millisecond
	RestFactor = 2
	mostRest   = 20 * time.Second
)

// Queue looks at the queue of a batch system, or at its history, for all who want to know of some job. However many
// ask, there is one look at a time, and one that began late enough serves all. It is safe for concurrent use.
type Queue struct {
	ask   func(ctx context.Context) ([]Job, error)
	rest  time.Duration // between two looks, at least
	looks Inquiry[look]

	mu      sync.Mutex // guards the fields below
	latest  *Snapshot
	failure lapse
	idle    time.Time // from when on there may be another look
	news    map[spawner.ID]news
	missed  map[spawner.ID]Absence
}

// Absence is what looks in a row do not show.
type Absence struct {
	Since time.Time // when the first of them began
	Last  []Job     // as the one before showed it; none: no look of this run of the service did
}

// look is what came of one.
type look struct {
	begun time.Time
	snap  *Snapshot
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
	job Job
}

// NewQueue returns a queue that looks by ask, and between two looks rests for a while.
func NewQueue(ask func(context.Context) ([]Job, error), rest time.Duration) *Queue {
	q := &Queue{ask: ask, rest: rest, news: map[spawner.ID]news{}, missed: map[spawner.ID]Absence{}}
	q.looks.Ask = q.look
	return q
}

// Since returns a look that began at t or later, or the error of one that has ended after t: who is content with what
// was seen of late does not ask a batch system again and again that does not answer. It returns when ctx ends; the look
// goes on for the others.
func (q *Queue) Since(ctx context.Context, t time.Time) (*Snapshot, error) {
	for {
		q.mu.Lock()
		if q.latest != nil && !q.latest.Begun.Before(t) {
			defer q.mu.Unlock()
			return q.latest, nil
		}
		if q.failure.ended.After(t) {
			defer q.mu.Unlock()
			return nil, q.failure.err
		}
		going := q.looks.Join(ctx) // before another look can end unseen
		q.mu.Unlock()
		l, err := going.Wait(ctx)
		if err != nil {
			return nil, err
		}
		if !l.begun.Before(t) {
			return l.snap, l.err
		}
	}
}

// look looks, when it is time for it. Who asks while it has not begun yet is served by it.
func (q *Queue) look(ctx context.Context) look {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	clock.Sleep(ctx, time.Until(idle))
	begun := time.Now()
	jobs, err := q.ask(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.endLocked(begun, jobs, err)
}

// endLocked notes what a look has seen.
func (q *Queue) endLocked(begun time.Time, jobs []Job, err error) look {
	now := time.Now()
	took := now.Sub(begun)
	q.idle = now.Add(max(q.rest, min(RestFactor*took, mostRest)))
	if err != nil {
		q.failure = lapse{now, err}
		return look{begun: begun, err: err}
	}
	snap := &Snapshot{Begun: begun, took: took, Jobs: map[spawner.ID][]Job{}}
	for _, j := range jobs {
		snap.Jobs[j.ID] = append(snap.Jobs[j.ID], j)
	}
	q.compareLocked(q.latest, snap)
	q.latest = snap
	return look{begun: begun, snap: snap}
}

// compareLocked notes which jobs a look lacks that the one before has shown, or that were submitted since. What is news
// no more is forgotten.
func (q *Queue) compareLocked(before, now *Snapshot) {
	if before != nil {
		for id, jobs := range before.Jobs {
			if now.Jobs[id] == nil {
				q.missed[id] = Absence{now.Begun, jobs}
			}
		}
	}
	for id, n := range q.news {
		if !n.at.Before(now.Begun) {
			continue
		}
		if delete(q.news, id); now.Jobs[id] == nil {
			q.missed[id] = Absence{now.Begun, []Job{n.job}}
		}
	}
	for id := range now.Jobs {
		delete(q.missed, id)
	}
}

// Finish ends the look that goes on, and waits for it.
func (q *Queue) Finish() { q.looks.Finish() }

// Cost returns how long the latest look took.
func (q *Queue) Cost() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.latest == nil {
		return 0
	}
	return q.latest.took
}

// Submitted notes that a job was submitted.
func (q *Queue) Submitted(j Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.news[j.ID] = news{time.Now(), j}
	delete(q.missed, j.ID)
}

// MissingSince returns since when looks lack a workload's job, of which one does that began at begun.
func (q *Queue) MissingSince(id spawner.ID, begun time.Time) Absence {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a, ok := q.missed[id]; ok {
		return a
	}
	a := Absence{Since: begun}
	if q.latest == nil || q.latest.Jobs[id] == nil { // else it is there again already
		q.missed[id] = a
	}
	return a
}

// Missing returns the workloads whose jobs are missed.
func (q *Queue) Missing() []spawner.ID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.missed))
}

// Forget forgets that a workload's job was missed.
func (q *Queue) Forget(id spawner.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.missed, id)
}

// Of returns the jobs of a workload as a look saw them that began at t or later, and when it began.
func (q *Queue) Of(ctx context.Context, id spawner.ID, t time.Time) ([]Job, time.Time, error) {
	s, err := q.Since(ctx, t)
	if err != nil {
		return nil, time.Time{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n, ok := q.news[id]; ok && !n.at.Before(s.Begun) {
		others := slices.DeleteFunc(slices.Clone(s.Jobs[id]), func(j Job) bool { return j.Name == n.job.Name })
		return append(others, n.job), s.Begun, nil
	}
	return s.Jobs[id], s.Begun, nil
}
