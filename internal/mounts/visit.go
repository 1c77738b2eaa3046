package mounts

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// visitor is about to enter a process's mounts, or is in them. What it has open is of one process, also when its number
// is another's.
type visitor struct {
	proc     int // this host's /proc
	ns, root *os.File
}

// visit opens what is needed. It refuses the mounts of this host, and those that a user has made herself.
func visit(pid int) (*visitor, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	ns, err := os.Open(filepath.Join(dir, "ns/mnt"))
	if err != nil {
		return nil, err
	}
	root, err := os.Open(filepath.Join(dir, "root"))
	if err != nil {
		return nil, err
	}
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w", err)
	}
	return &visitor{proc, ns, root}, admissible(ns)
}

// deepest is how far below the service's user namespace a container's is at most: Apptainer makes two, one in the
// other.
const deepest = 2

// admissible says why a mount namespace is not entered: it is this host's, or belongs to a user namespace that no
// backend makes. It is the second guard: the first is that backends name only processes that they have started.
func admissible(ns *os.File) error {
	ours, err := os.Open("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	defer ours.Close()
	if same, err := sameFile(ns, ours); err != nil || same {
		return errors.Join(err, errs.New(errs.Invalid, "it has the mounts of this host").
			With("look for a process in a container"))
	}
	user, err := os.Open("/proc/self/ns/user")
	if err != nil {
		return err
	}
	defer user.Close()
	owner, err := ask(ns, unix.NS_GET_USERNS)
	for depth := 0; err == nil && depth <= deepest; depth++ {
		defer owner.Close()
		if same, err := sameFile(owner, user); err != nil || same {
			return err
		}
		owner, err = ask(owner, unix.NS_GET_PARENT) // fails above this service's
	}
	return errs.New(errs.Forbidden, "its mounts were made by what runs in a container").
		With("look for the container's own process")
}

func ask(ns *os.File, question uint) (*os.File, error) {
	fd, err := unix.IoctlRetInt(int(ns.Fd()), question)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "namespace"), nil
}

func sameFile(a, b *os.File) (bool, error) {
	x, err := a.Stat()
	if err != nil {
		return false, err
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y), err
}

// inside calls a function in the process's mounts: paths are the process's there. It has a thread of its own, which ends
// with it.
func (v *visitor) inside(do func() error) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		err := v.enter()
		if err == nil {
			err = do()
		}
		ended <- err
	}()
	return <-ended
}

// enter takes the calling thread there for good: paths are the process's from then on, and the thread is at its root.
func (v *visitor) enter() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leave the other threads' directories: %w", err)
	}
	if err := unix.Setns(int(v.ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter its mounts: %w", err)
	}
	if err := unix.Fchdir(int(v.root.Fd())); err != nil {
		return err
	}
	return unix.Chroot(".")
}

// mountinfo returns the mounts of where the calling thread is, by this host's /proc: what a container has there may be
// anything.
func (v *visitor) mountinfo() (string, error) {
	fd, err := unix.Openat(v.proc, "thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("read what is mounted: %w", err)
	}
	f := os.NewFile(uintptr(fd), "mountinfo")
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}
