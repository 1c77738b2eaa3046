package taskgroup

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTasksEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(t.Context())
		var ended atomic.Int32
		for i := range 3 {
			if !g.Go(func(ctx context.Context) {
				<-ctx.Done()
				time.Sleep(time.Duration(i) * time.Second) // what a task still does at its end
				ended.Add(1)
			}) {
				t.Fatal("a task did not begin")
			}
		}
		leave, ok := g.Enter()
		if !ok {
			t.Fatal("the caller is no task")
		}
		go func() { <-g.Done(); ended.Add(1); leave() }()
		synctest.Wait()
		if n := ended.Load(); n != 0 || g.Context().Err() != nil {
			t.Errorf("%d tasks have ended before End", n)
		}
		g.End()
		if g.Go(func(context.Context) { t.Error("a task has begun after End") }) {
			t.Error("Go says that it has begun a task after End")
		}
		if _, ok := g.Enter(); ok {
			t.Error("Enter lets somebody in after End")
		}
		g.Wait()
		if n := ended.Load(); n != 4 {
			t.Errorf("Wait has returned with %d of 4 tasks ended", n)
		}
	})
}

func TestParentEndsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		g := New(parent)
		g.Go(func(ctx context.Context) { <-ctx.Done() })
		cancel()
		g.End()
		g.Wait()
	})
}
