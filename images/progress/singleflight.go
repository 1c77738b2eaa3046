package progress

import (
	"context"
	"sync"
	"time"
)

const reportEvery = 250 * time.Millisecond

// Group runs at most one piece of work for each key; callers of a key that is in flight join it.
type Group[T any] struct {
	mu  sync.Mutex
	run map[string]*flight[T]
}

type flight[T any] struct {
	Meter   Meter
	waiters int // 0: canceled, on its way out
	cancel  context.CancelFunc
	done    chan struct{} // closed when result and err are set
	result  T
	err     error
}

// Do runs work for key, or joins the run in progress, and tells report how it goes on the caller's goroutine. The work
// is canceled when the last of its callers has gone; that last one waits until it has cleaned up.
func (g *Group[T]) Do(
	ctx context.Context, key string, report func(Progress), work func(context.Context, *Meter) (T, error),
) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	f, err := g.join(ctx, key, work)
	if err != nil {
		return none, err
	}
	sent := 0
	tell := func() {
		states := f.Meter.since(sent)
		sent += len(states) - 1
		for _, p := range states {
			if report != nil && p.Stage != "" {
				report(p)
			}
		}
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.done:
			tell()
			return f.result, f.err
		case <-tick.C:
			tell()
		case <-ctx.Done():
			if g.leave(f) {
				<-f.done
			}
			return none, context.Cause(ctx)
		}
	}
}

// Waiting returns how many callers wait for the work of key.
func (g *Group[T]) Waiting(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.run[key]; f != nil {
		return f.waiters
	}
	return 0
}

// join finds or starts the flight of key. A canceled one is waited for: two must never work on one source.
func (g *Group[T]) join(
	ctx context.Context, key string, work func(context.Context, *Meter) (T, error),
) (*flight[T], error) {
	for {
		g.mu.Lock()
		f := g.run[key]
		if f == nil {
			f = g.start(ctx, key, work)
			g.mu.Unlock()
			return f, nil
		}
		if f.waiters > 0 {
			f.waiters++
			g.mu.Unlock()
			return f, nil
		}
		g.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// start is called with the lock held; its caller is the flight's first waiter.
func (g *Group[T]) start(ctx context.Context, key string, work func(context.Context, *Meter) (T, error)) *flight[T] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight[T]{waiters: 1, cancel: cancel, done: make(chan struct{})}
	if g.run == nil {
		g.run = map[string]*flight[T]{}
	}
	g.run[key] = f
	go func() {
		defer cancel()
		f.result, f.err = work(ctx, &f.Meter)
		g.mu.Lock()
		delete(g.run, key)
		g.mu.Unlock()
		close(f.done)
	}()
	return f
}

// leave says whether the caller was the last; the work is canceled then.
func (g *Group[T]) leave(f *flight[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	f.waiters--
	if f.waiters == 0 {
		f.cancel()
		return true
	}
	return false
}
