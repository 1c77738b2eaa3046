package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway/internal/errs"
)

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

// TestErrorsAreShownPlain: an error may have words that somebody else chose.
func TestErrorsAreShownPlain(t *testing.T) {
	var b bytes.Buffer
	report(&b, errs.New(errs.Invalid, "no \x1b]0;evil\x07such").With("ask \x1b[31mbob"))
	report(&b, errors.New("plain \x9b31mwords\nof two lines"))
	if got := b.String(); strings.ContainsAny(got, "\x1b\x07") || !strings.Contains(got, "no such") || !strings.Contains(got, "-> ask bob") || !strings.Contains(got, "\nof two lines") {
		t.Errorf("%q", got)
	}
}
