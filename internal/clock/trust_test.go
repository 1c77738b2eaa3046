package clock

import (
	"testing"
	"time"
)

// TestTrust: a clock that jumps, at any time and either way, is not believed for a day, a new service's not for an
// hour; what was in doubt when the service ended still is when it begins again.
func TestTrust(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const year, look = 365 * 24 * time.Hour, 15 * time.Second
	seen := Note{Seen: began}
	for name, tt := range map[string]struct {
		ahead  func(up time.Duration) time.Duration // what the clock is wrong by
		before Note
		first  time.Duration // when it is believed
		again  time.Duration // when it is again, after it was not any more; 0: it always is
	}{
		"right":                     {func(time.Duration) time.Duration { return 0 }, seen, time.Hour, 0},
		"slewed":                    {func(up time.Duration) time.Duration { return up / 100 }, seen, time.Hour, 0},
		"wrong at start":            {func(time.Duration) time.Duration { return year }, seen, 24 * time.Hour, 0},
		"wrong at the next as well": {func(time.Duration) time.Duration { return year }, Note{began.Add(year), 23 * time.Hour}, 23 * time.Hour, 0},
		"right at the next":         {func(time.Duration) time.Duration { return 0 }, Note{began.Add(year), 23 * time.Hour}, 24 * time.Hour, 0},
		"nearly believed":           {func(time.Duration) time.Duration { return 0 }, Note{began, time.Minute}, time.Hour, 0},
		"nothing on record":         {func(time.Duration) time.Duration { return year }, Note{}, time.Hour, 0},
		"ahead and back": {func(up time.Duration) time.Duration {
			if up > 2*time.Hour && up < 5*time.Hour {
				return year
			}
			return 0
		}, seen, time.Hour, 29 * time.Hour},
		"back": {func(up time.Duration) time.Duration {
			if up > 2*time.Hour {
				return -year
			}
			return 0
		}, seen, time.Hour, 26 * time.Hour},
	} {
		var k Trust
		var first, again time.Duration
		was := false
		for up := time.Duration(0); up < 48*time.Hour; up += look {
			is := k.Look(began.Add(up+tt.ahead(up)), up, tt.before)
			switch {
			case is && !was && first == 0:
				first = up
			case is && !was:
				again = up
			}
			was = is
		}
		near := func(a, b time.Duration) bool { return a >= b && a <= b+2*look }
		if !near(first, tt.first) || !near(again, tt.again) && tt.again+again > 0 {
			t.Errorf("%s: believed after %s and %s, want %s and %s", name, first, again, tt.first, tt.again)
		}
	}
}
