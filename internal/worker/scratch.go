package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// scratchName is the beginning of the name of a user's directory below Plan.Scratch, which ends with their number.
const scratchName = "slipway-scratch-"

// takeScratch makes a directory of the node for what the run writes, and has the sandbox use it. What a worker that was
// killed has left there of an earlier run of this user is removed. Without such a directory the sandbox has all, and
// the run goes on. The caller calls release when nothing of the run is left.
func (s *sandbox) takeScratch(above string, log *slog.Logger) (release func()) {
	if above == "" {
		return func() {}
	}
	dir, lock, err := newScratch(above)
	if err != nil {
		log.Warn("the run writes into its sandbox, for it has no directory on the node", "error", err)
		return func() {}
	}
	s.local = dir
	return func() {
		if err := errors.Join(removeTree(dir), lock.Close()); err != nil {
			log.Warn("what the run has written stays on the node until the user's next run there", "error", err)
		}
	}
}

// newScratch makes a directory for one run in the user's own. As long as the file is open, nobody removes it.
func newScratch(above string) (dir string, lock *os.File, err error) {
	own, err := ownDir(above, scratchName+strconv.Itoa(os.Getuid()))
	if err != nil {
		return "", nil, err
	}
	all, err := os.Open(own)
	if err != nil {
		return "", nil, err
	}
	defer all.Close()
	if err := unix.Flock(int(all.Fd()), unix.LOCK_EX); err != nil { // for as long as it takes to make a directory
		return "", nil, err
	}
	left := abandoned(own)
	if dir, err = os.MkdirTemp(own, "run-"); err == nil {
		lock, err = lockDir(dir)
	}
	_ = all.Close()
	for _, old := range left {
		_ = errors.Join(removeTree(old.Name()), old.Close()) // the next run tries again
	}
	return dir, lock, err
}

// abandoned returns, locked, the directories of runs whose worker lives no more.
func abandoned(own string) (left []*os.File) {
	entries, _ := os.ReadDir(own)
	for _, e := range entries {
		if f, err := lockDir(filepath.Join(own, e.Name())); err == nil {
			left = append(left, f)
		}
	}
	return left
}

// lockDir opens a directory and locks it, without waiting.
func lockDir(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return f, nil
}

// removeTree removes a tree in which a run may have left directories that its user cannot read.
func removeTree(dir string) error {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(name, 0o700)
		}
		return nil // its removal says what is wrong
	})
	return os.RemoveAll(dir)
}
