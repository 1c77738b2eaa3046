package cli

import (
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
)

func TestTellKept(t *testing.T) {
	until := time.Date(2026, 11, 20, 14, 0, 0, 0, time.Local)
	for want, stops := range map[string]time.Time{
		"s-1 is kept\nit will be stopped at 2026-11-20 14:00:00 (idle)\n":              until,
		"s-1 is kept\nit will be stopped at 2026-11-20 13:00:00 (idle)\n":              until.Add(-time.Hour),
		"s-1 is kept\nit stops at 2026-11-20 18:00:00 at the earliest anyway (idle)\n": until.Add(4 * time.Hour),
	} {
		var out strings.Builder
		s := hubapi.Session{
			Workload: hubapi.Workload{Meta: hubapi.Meta{ID: "s-1"}}, KeepUntil: &until,
			Stops: &hubapi.Stops{At: stops, Why: "idle"},
		}
		if err := tellKept(&out, s); err != nil || out.String() != want {
			t.Errorf("%q, %v, want %q", out.String(), err, want)
		}
	}
}
