package hubsync

import (
	"context"
	"sync"
	"time"

	"slipway/spawner"
)

// boxLimit is how many events wait for a Hub that is behind. Of more the oldest are left out: the newest say where the
// start is.
const boxLimit = 8

// box holds events between the engine, which never waits, and the Hub.
type box struct {
	mu     sync.Mutex // guards all below
	events []spawner.Event
	ended  time.Time     // when the last one was put in; zero: more may come
	change chan struct{} // closed and replaced when something comes
}

func newBox() *box { return &box{change: make(chan struct{})} }

func (b *box) put(e spawner.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.events = append(b.events, e); len(b.events) > boxLimit {
		b.events = b.events[1:]
	}
	b.announceLocked()
}

func (b *box) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = time.Now()
	b.announceLocked()
}

func (b *box) announceLocked() {
	close(b.change)
	b.change = make(chan struct{})
}

// first returns the oldest event, which stays, and waits for one; false when there will be none, and when ctx ends.
func (b *box) first(ctx context.Context) (spawner.Event, bool) {
	for {
		b.mu.Lock()
		events, ended, change := b.events, !b.ended.IsZero(), b.change
		b.mu.Unlock()
		switch {
		case len(events) > 0:
			return events[0], true
		case ended:
			return spawner.Event{}, false
		}
		select {
		case <-ctx.Done():
			return spawner.Event{}, false
		case <-change:
		}
	}
}

// done takes an event out, and what is older.
func (b *box) done(e spawner.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.events) > 0 && b.events[0].Seq <= e.Seq {
		b.events = b.events[1:]
	}
}

// endedFor reports whether nothing has come for d and nothing will.
func (b *box) endedFor(d time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.ended.IsZero() && time.Since(b.ended) >= d
}
