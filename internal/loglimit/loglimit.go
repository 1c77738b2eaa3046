// Package loglimit keeps strangers from filling a log: of each message it lets so many lines through in an interval,
// and then says in one line how many there were more. It is for lines that anybody outside can cause, and for those that
// each of thousands of jobs would repeat; what else known users do is logged in full.
package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// What doors that strangers can reach are given.
const (
	Lines    = 30
	Interval = time.Minute
)

// Handler is a slog.Handler that limits the lines of another. Lines below its level count for nothing.
type Handler struct {
	to     slog.Handler
	limits *limits // common to all handlers that are made from this one
}

// limits count lines by message. Messages are the program's own words, so there are few.
type limits struct {
	lines    int
	interval time.Duration

	mu sync.Mutex
	by map[string]*window
}

// window is one interval of one message.
type window struct{ lines, left int }

// New returns a handler that hands at most so many lines of each message on in each interval.
func New(to slog.Handler, lines int, interval time.Duration) *Handler {
	return &Handler{to: to, limits: &limits{lines: lines, interval: interval, by: map[string]*window{}}}
}

// Logger returns a logger for the doors that strangers can reach.
func Logger(log *slog.Logger) *slog.Logger { return slog.New(New(log.Handler(), Lines, Interval)) }

// Enabled asks the other handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

// Handle hands a line on, or counts it.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.limits.take(r.Message, func(left int) { h.summarize(r.Level, r.Message, left) }) {
		return nil
	}
	return h.to.Handle(ctx, r)
}

// take reports whether there is room for one more line. Where lines were left out, it calls tell at the end of the
// interval.
func (l *limits) take(message string, tell func(left int)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.by[message]
	if w == nil {
		w = &window{}
		l.by[message] = w
		time.AfterFunc(l.interval, func() {
			if left := l.end(message); left > 0 {
				tell(left)
			}
		})
	}
	if w.lines++; w.lines <= l.lines {
		return true
	}
	w.left++
	return false
}

// end closes the interval of a message and returns how many lines of it were left out.
func (l *limits) end(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.by[message].left
	delete(l.by, message)
	return left
}

func (h *Handler) summarize(level slog.Level, message string, left int) {
	r := slog.NewRecord(time.Now(), level, message+" (more of these lines were left out)", 0)
	r.AddAttrs(slog.Int("lines", left), slog.Duration("in", h.limits.interval))
	_ = h.to.Handle(context.Background(), r) // as slog.Logger does
}

// WithAttrs returns a handler with the same limits.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{to: h.to.WithAttrs(attrs), limits: h.limits}
}

// WithGroup returns a handler with the same limits.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{to: h.to.WithGroup(name), limits: h.limits}
}
