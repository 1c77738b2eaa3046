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

// share makes a directory a mount from which others below it propagate, unless it is one.
func share(dir string) error {
	for line := range mountLines() {
		if line.point == dir && line.shared {
			return nil
		}
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount --bind: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("mount --make-shared: %w", err)
	}
	return nil
}

// mountLine is one mount of this process's namespace. The points that are made here have no character that the kernel would escape,
// but for what the administrator has put into the data directory's path.
type mountLine struct {
	point, source string
	shared        bool
}

var escaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func mountLines() func(yield func(mountLine) bool) {
	return func(yield func(mountLine) bool) {
		info, _ := os.ReadFile("/proc/self/mountinfo")
		for line := range strings.Lines(string(info)) {
			front, back, _ := strings.Cut(line, " - ")
			f, b := strings.Fields(front), strings.Fields(back)
			if len(f) < 6 || len(b) < 2 {
				continue
			}
			if !yield(mountLine{escaped.Replace(f[4]), escaped.Replace(b[1]), strings.Contains(strings.Join(f[6:], " "), "shared:")}) {
				return
			}
		}
	}
}

// mounted gives what is mounted for a session: the names by mount point, the topmost last.
func (m *Mounter) mounted(id string) map[string][]string {
	out := map[string][]string{}
	for line := range mountLines() {
		if strings.HasPrefix(line.point, m.dir(id)+"/") {
			out[line.point] = append(out[line.point], line.source)
		}
	}
	return out
}

// left gives the sessions other than those here for which something is mounted, or credentials lie about.
func (m *Mounter) left(here map[string]bool) []string {
	found := map[string]bool{}
	for line := range mountLines() {
		if rest, below := strings.CutPrefix(line.point, m.cfg.Dir+"/"); below {
			id, _, _ := strings.Cut(rest, "/")
			found[id] = true
		}
	}
	entries, _ := os.ReadDir(m.cfg.RunDir)
	for _, e := range entries {
		found[e.Name()] = true
	}
	var out []string
	for id := range found {
		if !here[id] {
			out = append(out, id)
		}
	}
	return out
}

// replace puts what is mounted at aside in the place of what is mounted at point. Who has a file open there keeps it.
func replace(aside, point string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, aside, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("take up the mount: %w", err)
	}
	defer unix.Close(fd)
	if err := detach(aside); err != nil {
		return err
	}
	if err := detach(point); err != nil {
		return err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, point, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("put the mount in its place: %w", err)
	}
	return nil
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

// clear unmounts all of a session, ends its processes and removes its credentials.
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
	m.kill(aside + "/")
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

// kill ends the processes that have mounted something at a path that begins so. They end by themselves once nothing of theirs is mounted
// or open any more; who does not is killed.
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
		if err != nil || len(argv) < 3 || filepath.Base(string(argv[0])) != filepath.Base(m.cfg.Program) || !strings.HasPrefix(string(argv[1]), begins) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
