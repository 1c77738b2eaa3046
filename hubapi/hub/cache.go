package hub

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"slipway/internal/errs"
)

type key = [sha256.Size]byte

// cacheLimit bounds the cache: whoever can send requests can send new tokens.
const cacheLimit = 10_000

// cache remembers answers, and asks one question once for all who have it at the same time.
type cache struct {
	mu      sync.Mutex // guards entries
	entries map[key]*entry
}

// entry is an answer, or one that is on its way.
type entry struct {
	done  chan struct{} // closed when the rest is set
	id    Identity
	err   error
	until time.Time
}

func newCache() *cache { return &cache{entries: map[key]*entry{}} }

// get returns the answer for k. Who asks first asks for all, so its going away must not end the question.
func (c *cache) get(ctx context.Context, k key, ask func(context.Context) (Identity, error)) (Identity, error) {
	e, mine := c.entry(k)
	if mine {
		e.id, e.err = ask(context.WithoutCancel(ctx))
		e.until = time.Now().Add(age(e.err))
		close(e.done)
	}
	select {
	case <-e.done:
		return e.id, e.err
	case <-ctx.Done():
		return Identity{}, errors.Join(errs.New(errs.Unavailable, "the Hub has not answered in time"), ctx.Err())
	}
}

// age is how long an answer holds. A Hub that is down is asked again at once.
func age(err error) time.Duration {
	switch {
	case err == nil:
		return positiveAge
	case errs.Is(err, errs.Unauthorized) || errs.Is(err, errs.Forbidden):
		return negativeAge
	default:
		return 0
	}
}

// entry returns the entry of k; mine reports that the caller has to fill it.
func (c *cache) entry(k key) (e *entry, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[k]; e != nil && !e.stale() {
		return e, false
	}
	if len(c.entries) >= cacheLimit {
		c.sweepLocked()
	}
	e = &entry{done: make(chan struct{})}
	c.entries[k] = e
	return e, true
}

// sweepLocked drops what is stale, and everything answered if that is not enough.
func (c *cache) sweepLocked() {
	for k, e := range c.entries {
		if e.stale() {
			delete(c.entries, k)
		}
	}
	if len(c.entries) >= cacheLimit {
		c.entries = map[key]*entry{}
	}
}

func (e *entry) stale() bool {
	select {
	case <-e.done:
		return !time.Now().Before(e.until)
	default:
		return false
	}
}
