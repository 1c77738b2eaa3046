package sshgate

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"slipway/internal/clock"
)

// keepStart is how long a start of ours goes on when the connection of the last who waited for it was lost. Some
// clients give up after a few seconds and come again: their second attempt finds it.
const keepStart = 2 * time.Minute

// starts are the starts that visitors wait for. One that the gateway has asked for is taken back when nobody waits for
// it any more.
type starts struct {
	mu   sync.Mutex
	keep time.Duration
	all  map[startKey]*start
}

type startKey struct {
	owner  Owner
	server string
}

type start struct {
	waiting int
	ours    bool // the gateway has asked for it
	over    bool // for somebody who has waited: it is nobody's to take back any more
	recall  *recall
}

// recall is the taking back of a start.
type recall struct {
	key    startKey
	start  *start
	after  time.Duration
	cancel context.CancelFunc // of its context, which ends when somebody waits for the start again
}

// leaving is how somebody leaves who has waited.
type leaving struct {
	asked bool // the gateway has asked for the start, for her
	over  bool // the start has come to its end
	lost  bool // nobody has said that it is not wanted: the connection was lost
}

func newStarts() *starts { return &starts{keep: keepStart, all: map[startKey]*start{}} }

// join says that somebody waits. What was to be taken back is hers now.
func (s *starts) join(k startKey) *start {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.all[k]
	if st == nil {
		st = &start{}
		s.all[k] = st
	}
	if st.recall != nil {
		st.recall.cancel()
		st.recall = nil
	}
	st.waiting++
	return st
}

// leave says that somebody does not wait any more. It returns the recall that is to be run, with its context, or nil.
// Once a start is over for anybody, whoever comes later begins anew.
func (s *starts) leave(ctx context.Context, k startKey, st *start, l leaving) (context.Context, *recall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.waiting--
	st.ours, st.over = st.ours || l.asked, st.over || l.over
	if st.over || st.waiting == 0 && !st.ours {
		s.forget(k, st)
		return ctx, nil
	}
	if st.waiting > 0 {
		return ctx, nil
	}
	r := &recall{key: k, start: st}
	if l.lost {
		r.after = s.keep
	}
	ctx, r.cancel = context.WithCancel(ctx)
	st.recall = r
	return ctx, r
}

func (s *starts) forget(k startKey, st *start) {
	if s.all[k] == st {
		delete(s.all, k)
	}
}

// due reports whether still nobody waits.
func (s *starts) due(ctx context.Context, r *recall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.start.recall == r && ctx.Err() == nil
}

// done says that a recall is over.
func (s *starts) done(r *recall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.cancel()
	if r.start.recall == r {
		s.forget(r.key, r.start)
	}
}

// takeBack ends a start that nobody waits for any more, and gives back its place in the queue with it. Who joins
// meanwhile keeps it going.
func (g *Gate) takeBack(
	ctx context.Context, r *recall, stop func(ctx context.Context, server string), log *slog.Logger,
) {
	defer g.starts.done(r)
	if r.after > 0 {
		log.Info(
			"ssh start kept", "server", r.key.server, "reason", "the connection of who waits for it was lost", "for",
			r.after,
		)
		clock.Sleep(ctx, r.after)
	}
	if g.starts.due(ctx, r) {
		stop(ctx, r.key.server)
	}
}
