package export

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// inOrder has work done on what feed puts, in several goroutines at once, and hands each to done in the order of
// putting. Only a few items are on their way at any time.
func inOrder[T any](ctx context.Context, feed func(put func(T) error) error, work, done func(T) error) error {
	type slot struct {
		item  T
		ready chan error
	}
	g, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	todo, queue := make(chan slot, workers), make(chan slot, 2*workers)
	g.Go(func() error {
		defer close(queue)
		defer close(todo)
		return feed(func(item T) error {
			s := slot{item, make(chan error, 1)}
			for _, to := range []chan slot{queue, todo} {
				select {
				case to <- s:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	})
	for range workers {
		g.Go(func() error {
			for s := range todo {
				s.ready <- work(s.item)
			}
			return nil
		})
	}
	g.Go(func() error {
		for s := range queue {
			select {
			case err := <-s.ready:
				if err == nil {
					err = done(s.item)
				}
				if err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return g.Wait()
}
