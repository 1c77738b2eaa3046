// Package taskgroup has goroutines that end together: the background tasks of a part of the service, which are begun by
// requests and outlive them.
//
// What it promises: no task begins after End, each one's context has ended then, and Wait returns when the last has
// returned. So nobody who waits can miss one that is just beginning. What it must not do: restart tasks, keep their
// errors, or hold any value but their context. The context lies in a struct because what begins a task, a request or a
// callback, has only one that ends too early.
package taskgroup

import (
	"context"
	"sync"
)

// Group is a set of tasks. It is safe for concurrent use.
type Group struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	ended bool
	work  sync.WaitGroup
}

// New makes a group whose tasks have a context that ends with parent, or with End.
func New(parent context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(parent)
	return g
}

// Context returns the context of the group's tasks.
func (g *Group) Context() context.Context { return g.ctx }

// Done is closed when the context of the group's tasks has ended.
func (g *Group) Done() <-chan struct{} { return g.ctx.Done() }

// Go begins a task, and reports whether it did: after End it does not.
func (g *Group) Go(task func(ctx context.Context)) bool {
	leave, ok := g.Enter()
	if ok {
		go func() {
			defer leave()
			task(g.ctx)
		}()
	}
	return ok
}

// Enter makes the caller's goroutine one of the tasks until it calls leave. After End ok is false.
func (g *Group) Enter() (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, false
	}
	g.work.Add(1)
	return g.work.Done, true
}

// End ends the context of all tasks, and lets none begin any more.
func (g *Group) End() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	g.cancel()
}

// Wait waits until all tasks have returned. Only after End it is sure that no other begins.
func (g *Group) Wait() { g.work.Wait() }
