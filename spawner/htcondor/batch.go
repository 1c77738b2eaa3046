package htcondor

import (
	"context"
	"sync"
	"time"
)

// batcher joins calls that come at about the same time to one: who comes first does it for all. There is one at a time,
// and who comes meanwhile is in the next.
type batcher[T any] struct {
	do   func(ctx context.Context, all []*wish[T])
	pick func(all []*wish[T]) (now, later []*wish[T]) // of what has gathered what is done next, one at least; nil: all

	mu      sync.Mutex // guards the fields below
	waiting []*wish[T]
	leading bool // somebody gathers or does
	coming  int  // calls that will soon be here
}

// wish is one call's part. Who does it sets err.
type wish[T any] struct {
	what T
	err  error

	done  chan struct{}
	lead  chan struct{} // it is this call's turn to do it for all
	taken bool
}

func newBatcher[T any](do func(context.Context, []*wish[T])) *batcher[T] { return &batcher[T]{do: do} }

// announce says that a call will soon be here, or that it is or will not come after all. Others wait for it a little.
func (b *batcher[T]) announce() (arrived func()) {
	b.add(1)
	return sync.OnceFunc(func() { b.add(-1) })
}

func (b *batcher[T]) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming += n
}

// join has it done and gives how it went. When ctx ends before it was begun, nothing is done; once begun it is waited
// for.
func (b *batcher[T]) join(ctx context.Context, what T) (*wish[T], error) {
	w := &wish[T]{what: what, done: make(chan struct{}), lead: make(chan struct{}, 1)}
	b.enter(w)
	for {
		select {
		case <-w.done:
			return w, w.err
		case <-w.lead:
			b.conduct(context.WithoutCancel(ctx))
		case <-ctx.Done():
			if b.leave(w) {
				return w, ctx.Err()
			}
			<-w.done
			return w, w.err
		}
	}
}

func (b *batcher[T]) enter(w *wish[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, w)
	if !b.leading {
		b.leading = true
		w.lead <- struct{}{}
	}
}

// leave takes a wish back, unless it is being done. If it was its turn, it is another's.
func (b *batcher[T]) leave(w *wish[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.taken {
		return false
	}
	for i := range b.waiting {
		if b.waiting[i] == w {
			b.waiting = append(b.waiting[:i:i], b.waiting[i+1:]...)
			break
		}
	}
	select {
	case <-w.lead:
		b.passLocked()
	default:
	}
	return true
}

// conduct does what has gathered, and gives the turn to who is left or came meanwhile.
func (b *batcher[T]) conduct(ctx context.Context) {
	b.gather()
	b.mu.Lock()
	all, later := b.waiting, []*wish[T](nil)
	if b.pick != nil {
		all, later = b.pick(all)
	}
	b.waiting = later
	for _, w := range all {
		w.taken = true
	}
	b.mu.Unlock()
	b.do(ctx, all)
	for _, w := range all {
		close(w.done)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passLocked()
}

func (b *batcher[T]) passLocked() {
	if b.leading = len(b.waiting) > 0; b.leading {
		b.waiting[0].lead <- struct{}{}
	}
}

// How long calls are waited for: until none came for a moment and none is announced, but never for long.
const (
	gatherMoment = 15 * time.Millisecond
	gatherMost   = 2 * time.Second
)

func (b *batcher[T]) gather() {
	tick := time.NewTicker(gatherMoment)
	defer tick.Stop()
	for begun, before := time.Now(), -1; time.Since(begun) < gatherMost; {
		n, coming := b.gathered()
		if n == before && coming == 0 {
			return
		}
		before = n
		<-tick.C
	}
}

func (b *batcher[T]) gathered() (here, coming int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting), b.coming
}
