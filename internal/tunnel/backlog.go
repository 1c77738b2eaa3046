package tunnel

import "sync"

// backlog is what a goroutine of the link's does, in order, for others that must not wait for it: who closes a stream
// may hold a lock that the streams of all users need.
type backlog[T any] struct {
	mu   sync.Mutex
	more sync.Cond
	list []T
	over bool
}

func newBacklog[T any]() *backlog[T] {
	b := &backlog[T]{}
	b.more.L = &b.mu
	return b
}

// add leaves v to the goroutine. After the end it is nothing.
func (b *backlog[T]) add(v T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.list = append(b.list, v)
		b.more.Signal()
	}
}

// next waits for what was added since; nil is the end.
func (b *backlog[T]) next() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.list) == 0 && !b.over {
		b.more.Wait()
	}
	list := b.list
	b.list = nil
	return list
}

// end throws away what is there and what may still come.
func (b *backlog[T]) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over, b.list = true, nil
	b.more.Broadcast()
}
