package web

import (
	"context"
	"net/http"
	"sync"

	"slipway/internal/errs"
	"slipway/spawner"
)

// What requests may take of the service's memory and files. A user is bounded before all are, so that nobody can shut
// others out alone.
const (
	userBytes    = 16 << 20  // of bodies of one user's requests that are under way
	allBytes     = 128 << 20 // of everybody's
	userRequests = 256       // of one user, or of one of her workloads, that are under way: streams of events too
	allRequests  = 8192      // of everybody, with the websockets that go through to sessions
	connections  = 4096      // of a listener, without those that have become websockets
)

// budget counts the bytes of bodies, and the requests, that are under way.
type budget struct {
	mu       sync.Mutex
	all      int64
	bytes    map[payer]int64 // of users, also from their workloads
	requests map[payer]int
}

// payer is to whose account a request goes: a user, or one of her workloads.
type payer struct {
	hub      string
	user     spawner.User
	workload spawner.ID
}

func newBudget() *budget { return &budget{bytes: map[payer]int64{}, requests: map[payer]int{}} }

// enter counts a request with so many bytes of body until release is called. A Hub's Spawner asks for many users, and
// is not bounded as one.
func (b *budget) enter(c spawner.Caller, bytes int64) (release func(), err error) {
	p := payer{c.Hub, c.User, c.Workload}
	b.mu.Lock()
	defer b.mu.Unlock()
	if have := b.requests[p]; !c.Spawner && have >= userRequests {
		return nil, errs.New(errs.Busy, "%d of your requests are under way, which is the most that there may be", have).
			With("wait until some have ended, then try again")
	}
	if err := b.addLocked(c, bytes); err != nil {
		return nil, err
	}
	b.requests[p]++
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dropLocked(c, bytes)
		if b.requests[p]--; b.requests[p] == 0 {
			delete(b.requests, p)
		}
	}), nil
}

// take counts bytes alone.
func (b *budget) take(c spawner.Caller, bytes int64) (release func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.addLocked(c, bytes); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dropLocked(c, bytes)
	}), nil
}

func (b *budget) addLocked(c spawner.Caller, bytes int64) error {
	p := payer{hub: c.Hub, user: c.User}
	have := b.bytes[p]
	switch {
	case bytes == 0:
		return nil
	case !c.Spawner && have+bytes > userBytes:
		return errs.New(
			errs.Busy, "your requests under way bring %d MiB, and one user may send %d MiB at once", have>>20,
			userBytes>>20,
		).With("try again in a moment, or send fewer at once")
	case b.all+bytes > allBytes:
		return errs.New(errs.Unavailable, "the service takes in as much as it can at once").
			With("try again in a moment")
	}
	b.all, b.bytes[p] = b.all+bytes, have+bytes
	return nil
}

func (b *budget) dropLocked(c spawner.Caller, bytes int64) {
	p := payer{hub: c.Hub, user: c.User}
	b.all, b.bytes[p] = b.all-bytes, b.bytes[p]-bytes
	if b.bytes[p] == 0 {
		delete(b.bytes, p)
	}
}

// Bounded refuses requests of a caller who has too much under way. It stands behind identify.
func (s *Core) Bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		release, err := s.budget.enter(CallerOf(r.Context()), weight(r))
		if err != nil {
			s.Refuse(w, r, err)
			return
		}
		defer release()
		next.ServeHTTP(w, r)
	})
}

// weight is how much of a request's body may be in memory: no route keeps more than bodyLimit of it.
func weight(r *http.Request) int64 {
	if r.ContentLength < 0 {
		return BodyLimit
	}
	return min(r.ContentLength, BodyLimit)
}

// CountBody counts the body of a request of a caller's for as long as it is served: of requests that bounded does not
// see.
func (s *Core) CountBody(r *http.Request, c spawner.Caller) error {
	if weight(r) == 0 {
		return nil
	}
	release, err := s.budget.take(c, weight(r))
	if err == nil {
		context.AfterFunc(r.Context(), release)
	}
	return err
}

// Reserve counts bytes that a caller's request is to have in memory, until release is called.
func (s *Core) Reserve(c spawner.Caller, bytes int64) (release func(), err error) {
	return s.budget.take(c, bytes)
}
