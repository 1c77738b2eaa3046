package htcondor

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// mostAlike is how many lines that say the same are logged in sparingTime.
const (
	mostAlike   = 10
	sparingTime = 10 * time.Minute
)

// sparing returns a logger that does not say the same again and again: thousands of jobs may have the same trouble, and
// each that is tried anew has it anew. The last line says that more are left out, and the next after a time how many.
func sparing(log *slog.Logger) *slog.Logger {
	return slog.New(sparingHandler{log.Handler(), &repetitions{of: map[string]repetition{}}})
}

type sparingHandler struct {
	slog.Handler
	said *repetitions
}

// Handle leaves out what was said often enough of late.
func (h sparingHandler) Handle(ctx context.Context, r slog.Record) error {
	now := h.said.count(r.Message, r.Time)
	if now.lines > mostAlike {
		return nil
	}
	r = r.Clone()
	if now.lines == mostAlike {
		r.AddAttrs(slog.Duration("others_left_out_for", now.began.Add(sparingTime).Sub(r.Time)))
	}
	if now.before > 0 {
		r.AddAttrs(slog.Int("left_out_before", now.before))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is sparing together with h.
func (h sparingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sparingHandler{h.Handler.WithAttrs(attrs), h.said}
}

// WithGroup is sparing together with h.
func (h sparingHandler) WithGroup(name string) slog.Handler {
	return sparingHandler{h.Handler.WithGroup(name), h.said}
}

// repetitions counts lines by their words, which are few: what differs stands beside them. It is safe for concurrent
// use.
type repetitions struct {
	mu sync.Mutex
	of map[string]repetition
}

// repetition is how often something was to be said since a time.
type repetition struct {
	began  time.Time
	lines  int
	before int // how many were left out before that, as the first line tells
}

// count counts one more.
func (r *repetitions) count(words string, now time.Time) repetition {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of[words]
	c.before = 0
	if now.Sub(c.began) >= sparingTime {
		c = repetition{began: now, before: max(0, c.lines-mostAlike)}
	}
	c.lines++
	r.of[words] = c
	return c
}
