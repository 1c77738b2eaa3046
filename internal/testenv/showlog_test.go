package testenv

import (
	"fmt"
	"strings"
	"testing"
)

// TestDigest: of a long log trouble is shown wherever it was, and how it ended.
func TestDigest(t *testing.T) {
	var log strings.Builder
	for i := range 1000 {
		level := map[int]string{3: "WARN", 500: "ERROR"}[i]
		if level == "" {
			level = "INFO"
		}
		fmt.Fprintf(&log, "level=%s msg=line%d %s\n", level, i, strings.Repeat("ä", bytesEach))
	}
	shown := digest(log.String())
	if len(shown) != 2+lastLines || !strings.Contains(shown[0], "line3 ") || !strings.Contains(shown[1], "line500 ") || !strings.Contains(shown[21], "line999 ") {
		t.Errorf("%d lines: %q", len(shown), shown)
	}
	if n := len(shown[0]); n > bytesEach+3 {
		t.Errorf("a line of %d bytes", n)
	}
	if got := digest("only this\n"); len(got) != 1 || got[0] != "only this" {
		t.Errorf("a short log: %q", got)
	}
}
