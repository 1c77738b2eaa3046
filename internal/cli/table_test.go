package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
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
		if got := ago(now.Add(-tt.before), now); got != tt.want {
			t.Errorf("ago(%s) = %q, want %q", tt.before, got, tt.want)
		}
	}
	if got := ago(time.Time{}, now); got != "" {
		t.Errorf("ago(never) = %q", got)
	}
}

func TestReport(t *testing.T) {
	bad := errs.Bad("memory", "9G", "at most 8G")
	tests := []struct {
		name string
		err  error
		code int
		want string
	}{
		{"nothing", nil, 0, ""},
		{"plain", errors.New("x"), 1, "slipway: x\n"},
		{"remedy", bad, 1, "slipway: memory: \"9G\" is not valid\n  -> at most 8G\n"},
		{"wrapped", fmt.Errorf("submit: %w", bad), 1, "slipway: submit: memory: \"9G\" is not valid\n  -> at most 8G\n"},
		{"several", errors.Join(bad, errors.New("y")), 1, "slipway: memory: \"9G\" is not valid\n  -> at most 8G\nslipway: y\n"},
		{"two causes of one", fmt.Errorf("a %w and %w", bad, errors.New("y")), 1, "slipway: a memory: \"9G\" is not valid: at most 8G and y\n  -> at most 8G\n"},
		{"usage", usageError{errors.New("x")}, 2, "slipway: x\n"},
		{"a code of its own", fmt.Errorf("job: %w", exitCode(137)), 137, ""},
	}
	for _, tt := range tests {
		var b strings.Builder
		if code := report(&b, tt.err); code != tt.code || b.String() != tt.want {
			t.Errorf("%s: %d %q, want %d %q", tt.name, code, b.String(), tt.code, tt.want)
		}
	}
}
