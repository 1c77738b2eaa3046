package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// Device names what is mounted where a directory lies, such as "0:52". When autofs is started anew, its directory is another file system
// than before, of the same name: those that have bound the old one keep it, and it is dead.
func Device(dir string) (string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return holder(string(info), real).device, nil
}

// Stale reports whether a process has another file system mounted at a path than that of a device. One that has nothing mounted there, or
// is gone, has nothing stale.
func Stale(pid int, target, device string) (bool, error) {
	info, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read what process %d has mounted: %w", pid, err)
	}
	m := holder(string(info), target)
	return m.point == target && m.device != device, nil
}

// Renew puts what is mounted at source on this host in the place of what a process has at target, for all that share its mounts. What they
// have open stays open. It is the whole of the program `slipway renew-mount PID SOURCE TARGET`, and for a process of its own: the calling
// thread stays in the other's mount namespace.
func Renew(pid int, source, target string) error {
	if err := renew(pid, source, target); err != nil {
		return fmt.Errorf("mount %s anew for process %d: %w", target, pid, err)
	}
	return nil
}

func renew(pid int, source, target string) error {
	runtime.LockOSThread() // never unlocked
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	name, err := filepath.Rel("/", target)
	if err != nil {
		return err
	}
	ns, err := os.Open(filepath.Join(proc, "ns/mnt"))
	if err != nil {
		return err
	}
	root, err := os.Open(filepath.Join(proc, "root"))
	if err != nil {
		return err
	}
	if foreign, err := foreign(proc); err != nil || !foreign {
		return errors.Join(err, errs.New(errs.Invalid, "it has the mounts of this host").With("look for a process in a container"))
	}
	dead, err := orphaned(proc, target)
	if err != nil {
		return err
	}
	tree, err := clone(source)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leave the other threads' directories: %w", err)
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter its mounts: %w", err)
	}
	if err := unix.Fchdir(int(root.Fd())); err != nil {
		return err
	}
	if dead {
		release(name)
	}
	return replace(tree, name)
}

// orphaned reports whether a process has an autofs at a path that this host does not have any more: no daemon serves it.
func orphaned(proc, target string) (bool, error) {
	theirs, err := os.ReadFile(filepath.Join(proc, "mountinfo"))
	if err != nil {
		return false, err
	}
	ours, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	m := holder(string(theirs), target)
	for line := range strings.Lines(string(ours)) {
		if other, ok := parseMount(line); ok && other.device == m.device {
			return false, nil
		}
	}
	return m.point == target && m.kind == "autofs", nil
}

// release lets go whoever waits for a daemon that is gone: else they would wait for ever. What cannot be let go is left.
func release(name string) {
	const catatonic = 0x9362 // AUTOFS_IOC_CATATONIC of linux/auto_fs.h
	if fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.IoctlSetInt(fd, catatonic, 0)
		_ = unix.Close(fd)
	}
}

// foreign reports whether a process has mounts of its own.
func foreign(proc string) (bool, error) {
	theirs, err := os.Readlink(filepath.Join(proc, "ns/mnt"))
	if err != nil {
		return false, err
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	return theirs != ours, err
}

// clone makes a copy of what is mounted at dir, and below it, that nobody sees yet. It cannot be written to, hears of new mounts there, and
// tells nobody of its own.
func clone(dir string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("copy the mounts at %s: %w", dir, err)
	}
	slave := unix.MountAttr{Propagation: unix.MS_SLAVE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &slave); err != nil {
		return -1, fmt.Errorf("make the copy hear of new mounts: %w", err)
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &readOnly); err != nil {
		return -1, fmt.Errorf("make the copy read-only: %w", err)
	}
	return fd, nil
}

// replace takes the mounts at name away and puts the copy there. Where they cannot be taken away it lies on top of them.
func replace(tree int, name string) error {
	if strings.HasPrefix(name, "..") {
		return errs.Bad("target", name, "a path from the root")
	}
	if err := unix.Unmount(name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("take the old mount away: %w", err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("put the new mount there: %w", err)
	}
	return nil
}
