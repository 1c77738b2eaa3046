package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"slipway/spawner/batch"
)

// question is one to HTCondor that serves all who want to know: there is one at a time, and what comes of it holds for
// a while, also when that is an error. It goes on when who asked has gone. It is safe for concurrent use.
type question[T any] struct {
	ask   func(ctx context.Context) (T, error)
	fresh time.Duration   // how long an answer holds
	tell  func(err error) // is called when there is no answer any more, and with nil when there is one again

	inquiry batch.Inquiry[reply[T]]
	mu      sync.Mutex // guards latest
	latest  reply[T]
}

// reply is what came of a question.
type reply[T any] struct {
	value        T
	begun, ended time.Time
	err          error
}

func newQuestion[T any](ask func(context.Context) (T, error), fresh time.Duration, tell func(error)) *question[T] {
	q := &question[T]{ask: ask, fresh: fresh, tell: tell}
	q.inquiry.Ask = q.run
	return q
}

// answered returns an answer that is fresh. It returns when ctx ends.
func (q *question[T]) answered(ctx context.Context) reply[T] {
	q.mu.Lock()
	if last := q.latest; !last.ended.IsZero() && time.Since(last.ended) < q.fresh {
		q.mu.Unlock()
		return last
	}
	going := q.inquiry.Join(ctx) // before it can end unseen
	q.mu.Unlock()
	got, err := going.Wait(ctx)
	if err != nil {
		return reply[T]{begun: time.Now(), err: err}
	}
	return got
}

// known returns the latest answer without waiting, however old it is.
func (q *question[T]) known() reply[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.latest
}

func (q *question[T]) run(ctx context.Context) reply[T] {
	got := reply[T]{begun: time.Now()}
	got.value, got.err = q.ask(ctx)
	got.ended = time.Now()
	if errors.Is(got.err, context.Canceled) {
		return got // that says nothing of HTCondor
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if (got.err == nil) != (q.latest.err == nil) {
		q.tell(got.err)
	}
	q.latest = got
	return got
}

// finish ends the question that goes on, and waits for it.
func (q *question[T]) finish() { q.inquiry.Finish() }
