package sched

import (
	"testing"
	"time"
)

func TestEstimate(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ago := func(minutes ...int) (r completions) {
		for _, n := range minutes {
			r = r.add(now.Add(-time.Duration(n) * time.Minute))
		}
		return r
	}
	tests := []struct {
		r     completions
		place int
		want  time.Duration
	}{
		{nil, 1, -1},
		{ago(10, 5), 1, -1},
		{ago(30, 20, 10), 1, 10 * time.Minute},
		{ago(30, 20, 10), 4, 40 * time.Minute},
		{ago(900, 800, 30, 20, 10), 1, 10 * time.Minute}, // the night does not count
		{ago(900, 800, 700), 1, -1},
	}
	for _, tt := range tests {
		if got := tt.r.estimate(tt.place, now); got != tt.want {
			t.Errorf("%v at place %d: %v, want %v", tt.r, tt.place, got, tt.want)
		}
	}
	var many completions
	for range 100 {
		many = many.add(now)
	}
	if len(many) != completionCount {
		t.Errorf("%d completions are kept", len(many))
	}
}
