package squash

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/testenv"
)

// TestSwappedLinksNeverLeadOutside exchanges a directory and a file with links to the host's while they are copied.
func TestSwappedLinksNeverLeadOutside(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	at := func(p string) string { return filepath.Join(dir, p) }
	must(t, write(at("host/f"), "of the host"), write(at("upper/d/f"), "the user's"), write(at("upper/f"), "the user's"))
	must(t, os.Symlink(at("host"), at("upper/link-d")), os.Symlink(at("host/f"), at("upper/link-f")))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, at("upper/d"), unix.AT_FDCWD, at("upper/link-d"), unix.RENAME_EXCHANGE)
				unix.Renameat2(unix.AT_FDCWD, at("upper/f"), unix.AT_FDCWD, at("upper/link-f"), unix.RENAME_EXCHANGE)
			}
		}
	})
	strip, err := tree.NewStrip(nil)
	must(t, err)
	copied := 0
	for range 1000 {
		if snapshotLeaks(t, at("upper"), strip) {
			copied++
		}
	}
	close(stop)
	wg.Wait()
	if copied == 0 {
		t.Error("no snapshot came about")
	}
}

// snapshotLeaks fails the test when a snapshot holds what is the host's, and says whether there is one.
func snapshotLeaks(t *testing.T, upper string, strip *tree.Strip) bool {
	t.Helper()
	copied, err := os.MkdirTemp(t.TempDir(), "copy")
	must(t, err)
	dst, err := tree.OpenDir(copied)
	must(t, err)
	defer dst.Close()
	_, err = snapshot(t.Context(), upper, dst, strip, func(Stage, int64, int64, int64) {})
	must(t, filepath.WalkDir(copied, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("host")) {
			t.Errorf("%s holds a file of the host", path)
		}
		return err
	}), os.RemoveAll(copied))
	return err == nil
}
