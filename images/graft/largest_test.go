package graft

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/images/tree"
)

// TestLargest: what takes the most comes first, and neither what never travels nor what is only long counts.
func TestLargest(t *testing.T) {
	upper := t.TempDir()
	for path, n := range map[string]int{"a/b/big": 400, "a/small": 1, "middle": 200, "a/fair": 100, "tmp/scratch": 900} {
		full := filepath.Join(upper, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(strings.Repeat("x", n<<10)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := os.Create(filepath.Join(upper, "hollow")); err != nil || f.Truncate(1<<30) != nil || f.Close() != nil {
		t.Fatal(err)
	}
	strip, err := tree.NewStrip(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Largest(t.Context(), upper, strip)
	want := []LargeFile{{"/a/b/big", 400 << 10}, {"/middle", 200 << 10}, {"/a/fair", 100 << 10}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
