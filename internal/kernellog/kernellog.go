// Package kernellog looks into the kernel's log for processes that were killed for want of memory.
//
// It promises to wait for nothing, and that a log which cannot be read tells of nothing. The log is a ring: what it no
// longer tells of may still have happened.
package kernellog

import (
	"errors"
	"strings"
	"syscall"
)

// device gives one record with each read. Documentation/ABI/testing/dev-kmsg of Linux says how.
const device = "/dev/kmsg"

// longest is what a record may have. The kernel refuses to give one to a shorter buffer.
const longest = 8 << 10

// KilledAtLimit reports whether a process was killed because its control group had reached its own limit of memory. The
// name is the group's, or a part of it that no other has.
func KilledAtLimit(name string) bool {
	fd, err := syscall.Open(device, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	record := make([]byte, longest)
	for {
		n, err := syscall.Read(fd, record) // os.File would wait for a next record
		switch {
		case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINTR):
			continue // records were overwritten meanwhile
		case err != nil, n == 0:
			return false
		case atLimit(string(record[:n]), name):
			return true
		}
	}
}

// atLimit reports whether a record is the one that the kernel writes for a process that it kills, dump_oom_victim of
// mm/oom_kill.c, and names the group as the one whose limit it was.
func atLimit(record, name string) bool {
	_, told, ok := strings.Cut(record, ";oom-kill:constraint=CONSTRAINT_MEMCG,")
	if !ok {
		return false
	}
	_, told, ok = strings.Cut(told, ",oom_memcg=")
	group, _, _ := strings.Cut(told, ",")
	return ok && strings.Contains(group, name)
}
