package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Processes returns one process of each job that runs: the first one in its container, which Apptainer has started.
// What the job starts may have made mounts of its own.
func (b *Backend) Processes(context.Context) ([]int, error) {
	names, err := b.groups.Names()
	if err != nil {
		return nil, fmt.Errorf("list the processes of local jobs: %w", err)
	}
	var out []int
	for _, name := range names {
		if !validID.MatchString(name) {
			continue
		}
		pids, err := b.groups.Group(name).Pids()
		if err == nil {
			pids, err = firsts(pids)
		}
		if err != nil {
			return nil, fmt.Errorf("list the processes of job %s: %w", name, err)
		}
		out = append(out, pids...)
	}
	return out, nil
}

// firsts returns those of some processes that are the first ones of containers.
func firsts(pids []int) (out []int, err error) {
	for _, pid := range pids {
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
			continue
		case err != nil:
			return nil, err
		case isFirst(string(status)):
			out = append(out, pid)
		}
	}
	return out, nil
}

// isFirst reads /proc/PID/status: whether the process is number 1 of a PID namespace right below the reader's. Who is
// in one can only make deeper ones.
func isFirst(status string) bool {
	for line := range strings.Lines(status) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(numbers)
			return len(all) == 2 && all[1] == "1"
		}
	}
	return false
}
