package transfer

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// lock opens a partial file that nobody else is working on.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, errs.New(errs.Conflict, "another pull is writing %s", filepath.Base(path)).With("wait for it")
	}
	return f, nil
}
