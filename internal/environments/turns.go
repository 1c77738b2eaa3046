package environments

import (
	"context"
	"sync"
)

// turns let one piece of an owner's heavy work go on at a time, so that nobody takes all of the host by asking for much
// at once. The zero value is ready.
type turns struct {
	mu    sync.Mutex
	taken map[string]chan struct{} // by owner; closed when his work has ended
}

// wait waits until no other work of an owner goes on, and gives what ends this one.
func (t *turns) wait(ctx context.Context, owner string) (done func(), err error) {
	for {
		t.mu.Lock()
		other := t.taken[owner]
		if other == nil {
			mine := make(chan struct{})
			if t.taken == nil {
				t.taken = map[string]chan struct{}{}
			}
			t.taken[owner] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.taken, owner)
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
