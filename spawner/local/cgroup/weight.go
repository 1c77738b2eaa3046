package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// What a group without a weight has of the processors beside others, in the two versions of the kernel's interface.
const (
	plainShares = 1024
	plainWeight = 100
	leastShares = 2
)

// Weigh gives all jobs together so much of the processors beside the host's other groups, where there are not enough
// for all, in percent of what a group has by itself. A kernel that has no such file yet, before the first job, is asked
// again with the next.
func (t Tree) Weigh(parent string, percent int) error {
	dir, file, value := filepath.Join(t.root, "cpu", parent), "cpu.shares", max(leastShares, plainShares*percent/100)
	if t.unified {
		dir, file, value = filepath.Join(t.root, parent), "cpu.weight", max(1, plainWeight*percent/100)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := put(filepath.Join(dir, file), strconv.Itoa(value)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
