package outpost

import (
	"context"
	"sync"
	"time"

	"slipway/internal/errs"
)

const (
	stoppedAge   = 15 * time.Minute // how long a stop is remembered that may have overtaken its start
	stoppedLimit = 10_000           // of them, for one hub
)

// claim is one start of one hub.
type claim struct{ hub, name, id string }

// claims put requests about one start in order: two with the same id follow one another, and a stop that overtakes a
// start which is being asked for ends it. They remember what was stopped, so that it is known to nobody any more. What
// they remember is lost in a restart; the Hub's list of servers then shows what is left over.
type claims struct {
	mu      sync.Mutex
	held    map[claim]*holder
	stopped map[claim]time.Time
	order   map[string][]stop // by hub, oldest first
}

type holder struct {
	done   chan struct{}
	cancel context.CancelFunc
}

type stop struct {
	claim
	at time.Time
}

func newClaims() *claims {
	return &claims{held: map[claim]*holder{}, stopped: map[claim]time.Time{}, order: map[string][]stop{}}
}

// take waits for its turn. The context that it gives ends when the start is stopped; release must be called.
func (c *claims) take(ctx context.Context, k claim) (_ context.Context, release func(), err error) {
	for {
		mine, wait, err := c.try(ctx, k)
		if err != nil {
			return nil, nil, err
		}
		if mine != nil {
			return mine, func() { c.release(k) }, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, errs.New(errs.Conflict, "start %s is already being asked for", k.id).
				With("wait for its answer")
		case <-wait:
		}
	}
}

// try returns the context of a turn, or what to wait for.
func (c *claims) try(ctx context.Context, k claim) (context.Context, <-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wasStoppedLocked(k) && k.id != noStartID { // which names each start of the server
		return nil, nil, stoppedFirst(k)
	}
	if h := c.held[k]; h != nil {
		return nil, h.done, nil
	}
	delete(c.stopped, k)
	ctx, cancel := context.WithCancel(ctx)
	c.held[k] = &holder{done: make(chan struct{}), cancel: cancel}
	return ctx, nil, nil
}

// stoppedFirst is the error of a start that comes behind its stop.
func stoppedFirst(k claim) error {
	return errs.New(errs.Conflict, "start %s has already been stopped", k.id).With("start the server again")
}

func (c *claims) release(k claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[k]
	delete(c.held, k)
	h.cancel()
	close(h.done)
}

// overtake ends a request for a start, and remembers that. What it returns closes when there is none in progress; nil:
// there was none.
func (c *claims) overtake(k claim) <-chan struct{} {
	if !c.starting(k) {
		return nil
	}
	return c.stop(k)
}

// stop remembers that a start is not wanted any more, and ends a request for it, as overtake does.
func (c *claims) stop(k claim) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.wasStoppedLocked(k) {
		c.stopped[k] = now
		c.order[k.hub] = append(c.order[k.hub], stop{k, now})
	}
	c.pruneLocked(k.hub, now)
	if h := c.held[k]; h != nil {
		h.cancel()
		return h.done
	}
	return nil
}

func (c *claims) pruneLocked(hub string, now time.Time) {
	list := c.order[hub]
	for len(list) > 0 && (len(list) > stoppedLimit || now.Sub(list[0].at) >= stoppedAge) {
		if c.stopped[list[0].claim].Equal(list[0].at) {
			delete(c.stopped, list[0].claim)
		}
		list = list[1:]
	}
	c.order[hub] = list
}

// starting reports whether a request for a start is in progress.
func (c *claims) starting(k claim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[k] != nil
}

// wasStopped reports whether a start was stopped of late.
func (c *claims) wasStopped(k claim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wasStoppedLocked(k)
}

func (c *claims) wasStoppedLocked(k claim) bool {
	at, ok := c.stopped[k]
	return ok && time.Since(at) < stoppedAge
}
