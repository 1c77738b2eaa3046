package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// used is what a piece of work took.
type used struct {
	wall, cpu float64 // seconds
	peak      int64   // most resident bytes of this process
	written   int64   // bytes that it gave to the disk
}

// measure runs work after all earlier writes are on the disk. The CPU time is this process's and its children's.
func measure(work func() error) (u used, err error) {
	unix.Sync()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
		return u, err
	}
	before, err := written()
	if err != nil {
		return u, err
	}
	cpu, start := spent(), time.Now()
	if err := work(); err != nil {
		return u, err
	}
	u.wall, u.cpu = time.Since(start).Seconds(), spent()-cpu
	if _, u.peak, err = resident(); err != nil {
		return u, err
	}
	after, err := written()
	u.written = after - before
	return u, err
}

// flush returns how long work took together with the flush of its file, as a freeze does it.
func flush(path string, work used) (seconds float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	err = f.Sync()
	return work.wall + time.Since(start).Seconds(), errors.Join(err, f.Close())
}

func spent() (seconds float64) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if unix.Getrusage(who, &r) == nil {
			seconds += time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
		}
	}
	return seconds
}

// resident returns how many bytes of this process are in memory, and at most were.
func resident() (now, peak int64, err error) {
	if now, err = field("/proc/self/status", "VmRSS:"); err == nil {
		peak, err = field("/proc/self/status", "VmHWM:")
	}
	return now << 10, peak << 10, err
}

func written() (int64, error) { return field("/proc/self/io", "write_bytes:") }

// field reads a number of a file of the kernel's.
func field(path, name string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			return strconv.ParseInt(words[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

// call runs a program and gives what it said when it failed.
func call(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// forget drops a file from the page cache.
func forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	unix.Sync()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
