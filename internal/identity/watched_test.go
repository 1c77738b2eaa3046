package identity

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
)

func wordsOf(_, text string) (string, error) { return text, nil }

func written(t *testing.T, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTheRemedyWorks: after the words of the error are followed, the file is believed.
func TestTheRemedyWorks(t *testing.T) {
	path := written(t, 0o664)
	w := watch(path, "users.table", wordsOf)
	if _, err := w.now(); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "chmod go-w") {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := w.now(); text != "one" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := w.current(); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("others may write it again: %v", err)
	}
}

// TestASilentFileSystem: the first waits for it a while, the next not at all, and all is well when it is back.
func TestASilentFileSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int32
		back := make(chan struct{})
		w := watch(written(t, 0o600), "users.table", wordsOf)
		w.stat = func(path string) (fs.FileInfo, error) {
			looks.Add(1)
			<-back
			return os.Stat(path)
		}
		for _, wait := range []time.Duration{mostLook, 0, 0} {
			begun := time.Now()
			if _, err := w.now(); !errs.Is(err, errs.Unavailable) || time.Since(begun) != wait {
				t.Errorf("after %s, not %s: %v", time.Since(begun), wait, err)
			}
		}
		if n := looks.Load(); n != 1 {
			t.Errorf("%d looks", n)
		}
		close(back)
		synctest.Wait()
		if text, err := w.now(); text != "one" || err != nil {
			t.Errorf("it is back: %q, %v", text, err)
		}
	})
}
