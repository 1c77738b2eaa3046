package units

import (
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 files", 1: "1 file", 999: "999 files", 1204: "1,204 files", 1_000_000: "1,000,000 files", -12_345: "-12,345 files"} {
		if got := Count(n, "file", "files"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestBounded(t *testing.T) {
	many := strings.Split(strings.Repeat("x", 25), "")
	if got := Bounded(many, 1030); len(got) != 21 || got[20] != "and 1,010 more" {
		t.Errorf("%q", got)
	}
	if got := Bounded([]string{"a"}, 1); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
