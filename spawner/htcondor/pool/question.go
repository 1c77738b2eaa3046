package pool

import (
	"context"
	"errors"
	"sync"
	"time"
)

// question is one to HTCondor that serves all who want to know: there is one at a time, and what comes of it holds for
// a while, also when that is an error. It goes on when who asked has gone. It is safe for concurrent use.
type question[T any] struct {
	ask   func(ctx context.Context) (T, error)
	fresh time.Duration   // how long an answer holds
	tell  func(err error) // is called when there is no answer any more, and with nil when there is one again

	mu     sync.Mutex // guards what follows
	latest reply[T]
	now    *asking[T]
}

// reply is what came of a question.
type reply[T any] struct {
	value        T
	begun, ended time.Time
	err          error
}

// asking is a question that goes on.
type asking[T any] struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when what follows is set
	reply  reply[T]
}

// answered returns an answer that is fresh. It returns when ctx ends.
func (q *question[T]) answered(ctx context.Context) reply[T] {
	q.mu.Lock()
	if last := q.latest; !last.ended.IsZero() && time.Since(last.ended) < q.fresh {
		q.mu.Unlock()
		return last
	}
	a := q.askLocked(ctx)
	q.mu.Unlock()
	select {
	case <-ctx.Done():
		return reply[T]{begun: time.Now(), err: ctx.Err()}
	case <-a.done:
		return a.reply
	}
}

// known returns the latest answer without waiting, however old it is.
func (q *question[T]) known() reply[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.latest
}

// askLocked returns the question that goes on, or begins one. It ends by itself, as its command does, or when finish
// ends it.
func (q *question[T]) askLocked(ctx context.Context) *asking[T] {
	if q.now == nil {
		all, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q.now = &asking[T]{cancel: cancel, done: make(chan struct{})}
		go q.run(all, q.now)
	}
	return q.now
}

func (q *question[T]) run(ctx context.Context, a *asking[T]) {
	defer a.cancel()
	got := reply[T]{begun: time.Now()}
	got.value, got.err = q.ask(ctx)
	got.ended = time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	defer close(a.done)
	q.now, a.reply = nil, got
	if errors.Is(got.err, context.Canceled) {
		return // that says nothing of HTCondor
	}
	if (got.err == nil) != (q.latest.err == nil) {
		q.tell(got.err)
	}
	q.latest = got
}

// finish ends the question that goes on, and waits for it.
func (q *question[T]) finish() {
	q.mu.Lock()
	a := q.now
	q.mu.Unlock()
	if a != nil {
		a.cancel()
		<-a.done
	}
}
