package render

import (
	"testing"
	"time"
)

func TestAgo(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		before time.Duration
		want   string
	}{
		{-time.Minute, "0s ago"}, {0, "0s ago"}, {59 * time.Second, "59s ago"}, {60 * time.Second, "1m ago"}, {59 * time.Minute, "59m ago"},
		{time.Hour, "1h ago"}, {47 * time.Hour, "47h ago"}, {48 * time.Hour, "2d ago"}, {800 * time.Hour, "33d ago"},
	}
	for _, tt := range tests {
		if got := Ago(now.Add(-tt.before), now); got != tt.want {
			t.Errorf("ago(%s) = %q, want %q", tt.before, got, tt.want)
		}
	}
	if got := Ago(time.Time{}, now); got != "" {
		t.Errorf("ago(never) = %q", got)
	}
}
