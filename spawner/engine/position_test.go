package engine

import (
	"testing"
	"time"

	"slipway/spawner"
)

func TestEstimate(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ago := func(minutes ...int) (r releases) {
		for _, n := range minutes {
			r = r.add(now.Add(-time.Duration(n) * time.Minute))
		}
		return r
	}
	tests := []struct {
		r     releases
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
	var many releases
	for range 100 {
		many = many.add(now)
	}
	if len(many) != releaseCount {
		t.Errorf("%d releases are kept", len(many))
	}
}

func TestQueueInWords(t *testing.T) {
	for want, q := range map[string]spawner.Queue{
		"": {},
		"Waiting for room, next in line: 2 CPUs asked, 1 of 4 free":               {Place: 1, Lacks: "2 CPUs asked, 1 of 4 free", Estimate: -1},
		"Waiting for room: number 3 in line; about a minute, as things go":        {Place: 3, Estimate: 20 * time.Second},
		"Waiting for room: number 3 in line; about 12 min, as things go":          {Place: 3, Estimate: 11*time.Minute + time.Second},
		"Waiting for room: number 3 in line; about 40 min, as things go":          {Place: 3, Estimate: 38 * time.Minute},
		"Waiting for room: number 30 in line; about 7 h, as things go":            {Place: 30, Estimate: 7*time.Hour + 10*time.Minute},
		"Waiting for room, next in line: all taken; about 90 min, as things go":   {Place: 1, Lacks: "all taken", Estimate: 88 * time.Minute},
		"Waiting for room, next in line: all taken; about a minute, as things go": {Place: 1, Lacks: "all taken"},
	} {
		if got := q.String(); got != want {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
}
