package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/errs"
)

// TestHolesThatAnEngineIsSentAreBounded: layers have no holes.
func TestHolesThatAnEngineIsSentAreBounded(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "data")
	for size, want := range map[int64]bool{1 << 30: true, 1 << 40: false} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, size); err != nil {
			t.Fatal(err)
		}
		err := fewHoles(dir)
		if (err == nil) != want || err != nil && (!errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "/data")) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
