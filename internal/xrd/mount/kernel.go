package mount

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// share makes a directory a mount from which others below it propagate, and for which that of no other holds: where it
// lies on a mount that is shared, as all are on a host with systemd, one of the same peer group would have everything
// below it mounted twice.
func share(dir string) error {
	switch has, joined := sharing(dir); {
	case joined:
		if err := leave(dir); err != nil {
			return err
		}
	case has:
		return nil
	}
	fd, err := take(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_SHARED}); err != nil {
		return fmt.Errorf("mount --make-shared: %w", err)
	}
	return put(fd, dir, 0)
}

// leave unmounts a directory that has the peer group of what it lies on, and all that is below it, also what that has
// hidden.
func leave(dir string) error {
	err := detachBelow(dir)
	return errors.Join(err, detach(dir), detachBelow(dir))
}

func detachBelow(dir string) error {
	var err error
	for one := range mountTable() {
		if strings.HasPrefix(one.Point, dir+"/") {
			err = errors.Join(err, detach(one.Point))
		}
	}
	return err
}

// take returns a copy of what is seen at a path that is mounted nowhere yet, and to which nothing propagates.
func take(path string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("take up the mount: %w", err)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount --make-private: %w", err)
	}
	return fd, nil
}

// put mounts what was taken.
func put(fd int, point string, flags int) error {
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, point, unix.MOVE_MOUNT_F_EMPTY_PATH|flags); err != nil {
		return fmt.Errorf("put the mount in its place: %w", err)
	}
	return nil
}

// moveMountBeneath is MOVE_MOUNT_BENEATH of Linux 6.5: a mount goes below the topmost one at its place, and is seen
// when that one goes.
const moveMountBeneath = 0x200

// replace puts what is mounted at aside in the place of what is mounted at point. Who has a file open there keeps it.
func (m *Mounter) replace(aside, point, id string) error {
	fd, err := take(aside)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := detach(aside); err != nil {
		return err
	}
	if len(m.mounted(id)[point]) == 1 && put(fd, point, moveMountBeneath) == nil {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
		return nil
	}
	if err := detach(point); err != nil { // before Linux 6.5 nothing goes beneath: the directory is empty for a moment
		return err
	}
	return put(fd, point, 0)
}

// detach unmounts all that is mounted at a point, also what is busy: that lasts until it is closed.
func detach(point string) error {
	for {
		err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // nothing is mounted there
			return nil
		case err != nil:
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
}

// clear unmounts all of a session, ends its processes and removes its credentials. The session's lock is held.
func (m *Mounter) clear(id string) {
	for point := range m.mounted(id) {
		if err := detach(point); err != nil {
			m.log.Error("storage cannot be unmounted", "id", id, "err", err)
		}
	}
	dir := filepath.Join(m.cfg.RunDir, id)
	aside := filepath.Join(dir, "new")
	entries, _ := os.ReadDir(aside)
	for _, e := range entries {
		_ = detach(filepath.Join(aside, e.Name()))
	}
	m.awaitWrites(id)
	m.kill(aside + "/")
	m.tellLastLosses(id)
	for _, below := range []string{aside, dir} { // one level each: what is mounted there is not entered
		entries, _ := os.ReadDir(below)
		for _, e := range entries {
			_ = os.Remove(filepath.Join(below, e.Name()))
		}
	}
	if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
		m.log.Warn("what was made for a session's storage is not removed", "id", id, "err", err)
	}
}

// kill ends the processes that have mounted something at a path that begins so. They end by themselves once nothing of
// theirs is mounted or open any more; who does not is killed.
func (m *Mounter) kill(begins string) {
	for _, signal := range []unix.Signal{0, unix.SIGTERM, unix.SIGKILL} {
		for range 20 {
			pids := m.processes(begins)
			if len(pids) == 0 {
				return
			}
			for _, pid := range pids {
				_ = unix.Kill(pid, signal)
			}
			<-time.After(25 * time.Millisecond)
		}
	}
}

// processes finds those of xrootdfs by what they were asked to mount, which is named as nothing else is.
func (m *Mounter) processes(begins string) []int {
	var out []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, err := os.ReadFile(file)
		argv := bytes.Split(text, []byte{0})
		if err != nil || len(argv) < 3 || filepath.Base(string(argv[0])) != filepath.Base(m.cfg.Program) ||
			!strings.HasPrefix(string(argv[1]), begins) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
