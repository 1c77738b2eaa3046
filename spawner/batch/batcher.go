package batch

import (
	"context"
	"sync"
	"time"
)

// Batcher joins calls that come at about the same time to one: the first of them does it for all. One goes on at a
// time, and calls that come meanwhile are in the next.
type Batcher[T any] struct {
	do   func(ctx context.Context, all []*Call[T])
	Pick func(all []*Call[T]) (now, later []*Call[T]) // of what has gathered what is done next, one at least; nil: all

	mu      sync.Mutex // guards the fields below
	waiting []*Call[T]
	leading bool // somebody gathers or does
	coming  int  // calls that will soon be here
}

// Call is one call's part. Who does it sets Err.
type Call[T any] struct {
	Arg T
	Err error

	done  chan struct{}
	lead  chan struct{} // it is this call's turn to do it for all
	taken bool
}

// NewBatcher returns a batcher whose calls are carried out by do.
func NewBatcher[T any](do func(context.Context, []*Call[T])) *Batcher[T] { return &Batcher[T]{do: do} }

// Expect announces a call, for which others wait a little. The caller reports by arrived that it has come, or will not.
func (b *Batcher[T]) Expect() (arrived func()) {
	b.add(1)
	return sync.OnceFunc(func() { b.add(-1) })
}

func (b *Batcher[T]) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming += n
}

// Join has it done and returns how it went. When ctx ends before it was begun, nothing is done; once begun it is waited
// for.
func (b *Batcher[T]) Join(ctx context.Context, what T) (*Call[T], error) {
	w := &Call[T]{Arg: what, done: make(chan struct{}), lead: make(chan struct{}, 1)}
	b.enter(w)
	for {
		select {
		case <-w.done:
			return w, w.Err
		case <-w.lead:
			b.conduct(context.WithoutCancel(ctx))
		case <-ctx.Done():
			if b.leave(w) {
				return w, ctx.Err()
			}
			<-w.done
			return w, w.Err
		}
	}
}

func (b *Batcher[T]) enter(w *Call[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, w)
	if !b.leading {
		b.leading = true
		w.lead <- struct{}{}
	}
}

// leave takes a call back, unless it is being done. If it was its turn, it is another's.
func (b *Batcher[T]) leave(w *Call[T]) bool {
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
func (b *Batcher[T]) conduct(ctx context.Context) {
	b.gather()
	b.mu.Lock()
	all, later := b.waiting, []*Call[T](nil)
	if b.Pick != nil {
		all, later = b.Pick(all)
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

func (b *Batcher[T]) passLocked() {
	if b.leading = len(b.waiting) > 0; b.leading {
		b.waiting[0].lead <- struct{}{}
	}
}

// How long calls are waited for: until none came for a moment and none is announced, but never for long.
const (
	gatherMoment = 15 * time.Millisecond
	MaxGather    = 2 * time.Second
)

func (b *Batcher[T]) gather() {
	tick := time.NewTicker(gatherMoment)
	defer tick.Stop()
	for begun, before := time.Now(), -1; time.Since(begun) < MaxGather; {
		n, coming := b.gathered()
		if n == before && coming == 0 {
			return
		}
		before = n
		<-tick.C
	}
}

func (b *Batcher[T]) gathered() (here, coming int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting), b.coming
}
