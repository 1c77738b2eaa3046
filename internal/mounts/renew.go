package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// Device names what is mounted where a directory lies, such as "0:52". When autofs is started anew, its directory is
// another file system than before, of the same name: those that have bound the old one keep it, and it is dead.
func Device(dir string) (string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	real, err := locate(string(info), dir)
	if err != nil {
		return "", err
	}
	return holder(string(info), real).Device, nil
}

// Stale returns the device of what a process has mounted at a path, where that is another than device. One that has
// nothing mounted there, or is gone, has nothing stale.
func Stale(pid int, target, device string) (string, error) {
	info, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read what process %d has mounted: %w", pid, err)
	}
	if m := holder(string(info), target); m.Point == target && m.Device != device {
		return m.Device, nil
	}
	return "", nil
}

// Renew puts what is mounted at source on this host in the place of what a process has at target, for all that share
// its mounts, if that is the stale device still: the process's number may be another's by now. What they have open
// stays open. It is the whole of the program `slipway renew-mount PID SOURCE TARGET DEVICE`.
func Renew(pid int, source, target, stale string) error {
	if err := renew(pid, source, target, stale, func() {}); err != nil {
		return fmt.Errorf("mount %s anew for process %d: %w", target, pid, err)
	}
	return nil
}

// mostCopies is how often a copy is made when something is mounted meanwhile each time.
const mostCopies = 10

// renew calls copied after each copy that it has made. The kernel tells a copy nothing of what is mounted below source
// until it is in its place. What the process lacks then it would lack for good: autofs takes what is mounted for this
// host to be mounted for everybody, and keeps it mounted for as long as the process asks for it. So the copy is made
// again.
func renew(pid int, source, target, stale string, copied func()) error {
	name, err := filepath.Rel("/", target)
	if err != nil {
		return err
	}
	v, err := visit(pid)
	if err != nil {
		return err
	}
	for range mostCopies {
		ours, err := v.mountinfo()
		if err != nil {
			return err
		}
		tree, err := clone(source)
		if err != nil {
			return err
		}
		copied()
		err = v.inside(func() error { return exchange(v, ours, tree, name, target, stale) })
		_ = unix.Close(tree)
		if err != nil {
			return err
		}
		var lacks bool
		if stale, lacks, err = v.compare(source, target); err != nil || !lacks {
			return err
		}
	}
	return errs.New(errs.Conflict, "something is mounted there all the time").With("it is looked at again")
}

// exchange puts the copy in the place of the stale device. It is called inside.
func exchange(v *visitor, ours string, tree int, name, target, stale string) error {
	theirs, err := v.mountinfo()
	if err != nil {
		return err
	}
	m := holder(theirs, target)
	if m.Point != target || m.Device != stale {
		return errs.New(errs.Conflict, "it has something else there than a moment ago").With("it is looked at again")
	}
	if m.Type == "autofs" && !has(ours, stale) {
		release(name) // no daemon serves it
	}
	return replace(tree, name)
}

// compare returns the device that the process has at target, and whether it lacks what this host has below source.
// This host is looked at first: what is mounted after that reaches both.
func (v *visitor) compare(source, target string) (device string, lacks bool, err error) {
	ours, err := v.mountinfo()
	if err != nil {
		return "", false, err
	}
	real, err := locate(ours, source)
	if err != nil {
		return "", false, err
	}
	var theirs string
	if err := v.inside(func() (err error) { theirs, err = v.mountinfo(); return err }); err != nil {
		return "", false, err
	}
	there := below(theirs, target)
	for mount := range below(ours, real) {
		lacks = lacks || !there[mount]
	}
	return holder(theirs, target).Device, lacks, nil
}

// below returns the paths of what is mounted below dir, with the devices, but for what lies hidden below another mount.
func below(mountinfo, dir string) map[string]bool {
	top := holder(mountinfo, dir)
	shown, found := map[string]bool{top.ID: true}, map[string]bool{}
	for grows := true; grows; {
		grows = false
		for m := range Mounts(mountinfo) {
			path, is := strings.CutPrefix(m.Point, dir+"/")
			if is && shown[m.Parent] && !shown[m.ID] {
				shown[m.ID], found[path+" "+m.Device], grows = true, true, true
			}
		}
	}
	return found
}

// has reports whether a device is mounted.
func has(mountinfo, device string) bool {
	for m := range Mounts(mountinfo) {
		if m.Device == device {
			return true
		}
	}
	return false
}

// release lets go whoever waits for a daemon that is gone: else they would wait for ever. What cannot be let go is
// left.
func release(name string) {
	const catatonic = 0x9362 // AUTOFS_IOC_CATATONIC of linux/auto_fs.h
	if fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.IoctlSetInt(fd, catatonic, 0)
		_ = unix.Close(fd)
	}
}

// clone makes a copy of what is mounted at dir, and below it, that nobody sees yet. It cannot be written to, hears of
// new mounts there, and tells nobody of its own.
func clone(dir string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("copy the mounts at %s: %w", dir, err)
	}
	harmless := unix.MountAttr{
		Propagation: unix.MS_SLAVE, Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &harmless); err != nil {
		return -1, fmt.Errorf("make the copy read-only, and hear of new mounts: %w", err)
	}
	return fd, nil
}

// replace takes the mounts at name away and puts the copy there. Where they cannot be taken away it lies on top of
// them.
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
