package watchdog

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/gpu"
)

// TestRun: readings come, one who uses too much is warned and then ended, and an end that fails is tried again.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var said []string
		var log strings.Builder
		fails := true
		w := New(Config{
			Readings: func() []Reading { // a new one every 4 s
				seconds := int(time.Since(began)/time.Second) / 4 * 4
				r := at(seconds, uses{10: 12, 99: 1})
				r.Taken = began.Add(time.Duration(seconds) * time.Second)
				return []Reading{r}
			},
			Held: func() []gpu.Lease {
				l := lease("a", 10)
				l.Since = began.Add(-time.Hour)
				return []gpu.Lease{l}
			},
			Whose: owners,
			Warn:  func(workload, _ string) { said = append(said, "warn "+workload) },
			End: func(_ context.Context, workload, _ string) error {
				said = append(said, "end "+workload)
				if fails {
					fails = false
					return errors.New("busy")
				}
				return nil
			},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if got := strings.Join(said, ", "); got != "warn a, end a, end a" {
			t.Errorf("it said %q", got)
		}
		if strings.Count(log.String(), "pid=99") != 1 || !strings.Contains(log.String(), "busy") {
			t.Errorf("the administrator reads\n%s", log.String())
		}
	})
}

// TestForgets: what is no longer read is not remembered.
func TestForgets(t *testing.T) {
	readings := []Reading{at(1, uses{10: 1})}
	w := New(Config{
		Readings: func() []Reading { return readings }, Held: func() []gpu.Lease { return nil }, Whose: owners, Logger: slog.New(slog.DiscardHandler),
	})
	w.round(t.Context())
	readings = nil
	w.round(t.Context())
	if len(w.seen) != 0 {
		t.Errorf("it remembers %v", w.seen)
	}
}
