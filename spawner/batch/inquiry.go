package batch

import (
	"context"
	"sync"
)

// Inquiry asks one question at a time for all who want to know: who comes while it is asked waits for the same answer. It
// goes on when who asked has gone, and ends by itself, as its command does, or when Finish ends it. It is safe for
// concurrent use.
type Inquiry[T any] struct {
	Ask func(ctx context.Context) T

	mu    sync.Mutex // guards going
	going *Asking[T]
}

// Asking is a question that goes on.
type Asking[T any] struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when answer is set
	answer T
}

// Join returns the question that goes on, or begins one.
func (q *Inquiry[T]) Join(ctx context.Context) *Asking[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.going == nil {
		all, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q.going = &Asking[T]{cancel: cancel, done: make(chan struct{})}
		go q.run(all, q.going)
	}
	return q.going
}

func (q *Inquiry[T]) run(ctx context.Context, a *Asking[T]) {
	defer a.cancel()
	answer := q.Ask(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	defer close(a.done)
	q.going, a.answer = nil, answer
}

// Wait returns the answer, or the context's error when ctx ends before there is one.
func (a *Asking[T]) Wait(ctx context.Context) (answer T, err error) {
	select {
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-a.done:
		return a.answer, nil
	}
}

// Finish ends the question that goes on, and waits for it.
func (q *Inquiry[T]) Finish() {
	q.mu.Lock()
	a := q.going
	q.mu.Unlock()
	if a != nil {
		a.cancel()
		<-a.done
	}
}
