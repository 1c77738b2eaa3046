package graft

import (
	"testing"
	"time"
)

func TestExpectedPause(t *testing.T) {
	for _, tc := range []struct {
		files int64
		took  time.Duration
		want  time.Duration
	}{
		{100, time.Second, 0},
		{200_000, 600 * time.Millisecond, 0},
		{900_000, 1800 * time.Millisecond, 0},
		{1_000_000, 2 * time.Second, 2 * time.Second},  // a quick machine
		{1_000_000, 8 * time.Second, 4 * time.Second},  // a busy one
		{1_000_000, 35 * time.Second, 6 * time.Second}, // the walk waited for the disk; the next one will not
		{5_000_000, 10 * time.Second, 10 * time.Second},
	} {
		if got := ExpectedPause(tc.files, tc.took); got != tc.want {
			t.Errorf("%d files, walked in %s: %s, want %s", tc.files, tc.took, got, tc.want)
		}
	}
}
