// Package workqueue hands out keys of workloads to workers.
//
// Promises: a key is with one worker at a time; adding it meanwhile brings it back once afterwards; adding it twice
// while it waits merges. So whatever happens to a workload is looked at, by one worker, after it happened. It is what
// Kubernetes' controllers call a work queue. It knows nothing of what the workers do, and starts no goroutine.
package workqueue

import (
	"context"
	"sync"
	"time"

	"slipway/spawner"
)

// Queue is a work queue. Its methods are safe for concurrent use.
type Queue struct {
	mu     sync.Mutex
	ready  []spawner.ID          // guarded by mu, as all below
	queued map[spawner.ID]bool   // stands in ready
	busy   map[spawner.ID]bool   // with a worker
	again  map[spawner.ID]bool   // added while busy
	timers map[spawner.ID]*timer // the earliest later look at a key
	wake   chan struct{}         // holds one token while ready is not empty
}

type timer struct {
	*time.Timer
	at time.Time
}

// New returns an empty Queue.
func New() *Queue {
	return &Queue{
		queued: map[spawner.ID]bool{}, busy: map[spawner.ID]bool{}, again: map[spawner.ID]bool{},
		timers: map[spawner.ID]*timer{},
		wake:   make(chan struct{}, 1),
	}
}

// Add asks for a look at id now.
func (q *Queue) Add(id spawner.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(id)
}

func (q *Queue) addLocked(id spawner.ID) {
	switch {
	case q.busy[id]:
		q.again[id] = true
	case !q.queued[id]:
		q.queued[id] = true
		q.ready = append(q.ready, id)
		q.wakeLocked()
	}
}

func (q *Queue) wakeLocked() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// AddAfter asks for a look at id in d. Of several such wishes the earliest counts.
func (q *Queue) AddAfter(id spawner.ID, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now().Add(d)
	if t := q.timers[id]; t != nil {
		if !at.Before(t.at) {
			return
		}
		t.Stop()
	}
	t := &timer{at: at}
	t.Timer = time.AfterFunc(d, func() { q.expire(id, t) })
	q.timers[id] = t
}

func (q *Queue) expire(id spawner.ID, t *timer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timers[id] == t {
		delete(q.timers, id)
		q.addLocked(id)
	}
}

// Get waits for a key. It reports false when ctx has ended. Every key it returns must be handed to Done.
func (q *Queue) Get(ctx context.Context) (spawner.ID, bool) {
	for {
		select {
		case <-ctx.Done():
			return "", false
		case <-q.wake:
		}
		if id, ok := q.take(); ok {
			return id, true
		}
	}
}

func (q *Queue) take() (spawner.ID, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		return "", false
	}
	id := q.ready[0]
	q.ready = q.ready[1:]
	delete(q.queued, id)
	q.busy[id] = true
	if len(q.ready) > 0 {
		q.wakeLocked()
	}
	return id, true
}

// Done gives a key back.
func (q *Queue) Done(id spawner.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, id)
	if q.again[id] {
		delete(q.again, id)
		q.addLocked(id)
	}
}

// Stop ends all timers.
func (q *Queue) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, t := range q.timers {
		t.Stop()
		delete(q.timers, id)
	}
}
