package engine

import (
	"context"
	"sync"
	"time"

	"slipway/spawner"
)

// queue hands out keys to workers. A key is with one worker at a time; adding it meanwhile brings it back once afterwards; adding
// it twice while it waits merges. So whatever happens to a workload is looked at, by one worker, after it happened.
type queue struct {
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

func newQueue() *queue {
	return &queue{
		queued: map[spawner.ID]bool{}, busy: map[spawner.ID]bool{}, again: map[spawner.ID]bool{}, timers: map[spawner.ID]*timer{},
		wake: make(chan struct{}, 1),
	}
}

// add asks for a look at id now.
func (q *queue) add(id spawner.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(id)
}

func (q *queue) addLocked(id spawner.ID) {
	switch {
	case q.busy[id]:
		q.again[id] = true
	case !q.queued[id]:
		q.queued[id] = true
		q.ready = append(q.ready, id)
		q.wakeLocked()
	}
}

func (q *queue) wakeLocked() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// addAfter asks for a look at id in d. Of several such wishes the earliest counts.
func (q *queue) addAfter(id spawner.ID, d time.Duration) {
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

func (q *queue) expire(id spawner.ID, t *timer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timers[id] == t {
		delete(q.timers, id)
		q.addLocked(id)
	}
}

// get waits for a key. It reports false when ctx has ended. Every key it gives must be handed to done.
func (q *queue) get(ctx context.Context) (spawner.ID, bool) {
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

func (q *queue) take() (spawner.ID, bool) {
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

// done gives a key back.
func (q *queue) done(id spawner.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, id)
	if q.again[id] {
		delete(q.again, id)
		q.addLocked(id)
	}
}

// stop ends all timers.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, t := range q.timers {
		t.Stop()
		delete(q.timers, id)
	}
}
