package sshd

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// From the first bulk on a program's input holds more than pipes do as they are made, so that who writes and who reads
// it are woken less often. It counts against what the kernel grants a user.
const (
	bulkWrite = 32 << 10
	bulkPipe  = 256 << 10
)

// input is where a program's input is written.
type input struct {
	*os.File
	moved func(int)
	grown bool
}

// Write writes.
func (i *input) Write(p []byte) (int, error) {
	i.moved(len(p))
	return i.File.Write(p)
}

// Try writes what there is room for.
func (i *input) Try(p []byte) (n int) {
	raw, err := i.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if !i.grown && len(p) >= bulkWrite {
			i.grown = true
			_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, bulkPipe) // which a terminal has not
		}
		n, _ = syscall.Write(int(fd), p)
	})
	n = max(n, 0)
	i.moved(n)
	return n
}
