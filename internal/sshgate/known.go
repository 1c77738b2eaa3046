package sshgate

import (
	"context"
	"sync"
	"time"
)

// A user is asked for at her hub at most this often.
const knownFor = 5 * time.Minute

// mostKnown bounds what is remembered.
const mostKnown = 10_000

// known remembers which users their hubs know.
type known struct {
	ask func(ctx context.Context, o Owner) (bool, error) // nil: nobody is asked

	mu    sync.Mutex
	until map[Owner]time.Time
}

func newKnown(ask func(context.Context, Owner) (bool, error)) *known {
	return &known{ask: ask, until: map[Owner]time.Time{}}
}

// is says whether a user may be taken for one of her hub's. A hub that does not answer locks nobody out. That it does
// not know her is not remembered: she may come to it any time.
func (k *known) is(ctx context.Context, o Owner) bool {
	if k.ask == nil || k.recent(o) {
		return true
	}
	yes, err := k.ask(ctx, o)
	if err == nil && yes {
		k.note(o)
	}
	return yes || err != nil
}

func (k *known) recent(o Owner) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Before(k.until[o])
}

func (k *known) note(o Owner) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.until) >= mostKnown {
		clear(k.until)
	}
	k.until[o] = time.Now().Add(knownFor)
}
