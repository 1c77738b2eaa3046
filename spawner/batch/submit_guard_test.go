package batch

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
)

// TestSubmitGuard: nothing is submitted while a command of an earlier service holds the file, nor before what it has
// sent can be seen; commands of the same service do not wait for each other.
func TestSubmitGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "submitting")
		orphan, err := NewSubmitGuard(file, "sbatch", "wait").Hold(t.Context())
		noError(t, err)
		g := NewSubmitGuard(file, "sbatch", "wait")
		if _, err := g.Hold(t.Context()); !errs.Is(err, errs.Unavailable) {
			t.Errorf("while the orphan runs: %v", err)
		}
		time.AfterFunc(time.Second, func() { _ = orphan.Close() })
		begun := time.Now()
		one, err := g.Hold(t.Context())
		noError(t, err)
		if time.Since(begun) < time.Second+LateCommit {
			t.Errorf("it waited for %v", time.Since(begun))
		}
		begun = time.Now()
		two, err := g.Hold(t.Context())
		noError(t, err)
		if time.Since(begun) > 0 {
			t.Error("its own commands wait for each other")
		}
		noError(t, one.Close())
		noError(t, two.Close())
	})
}
