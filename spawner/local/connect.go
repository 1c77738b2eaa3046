package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"slipway/spawner/local/cgroup"

	"golang.org/x/sys/unix"
)

// The files that the program of a job's network inherits behind the standard three.
const (
	spaceFD = 3 // the network namespace
	usersNS = 4 // the user namespace that it belongs to
)

// Connect becomes the pasta that joins a job's network namespace to the host's network: it joins a control group of its
// own, shows pasta the namespaces at paths that nobody else sees, becomes the job's owner with no more rights than
// pasta needs to enter them, and is replaced. It is the whole of the program `slipway local-network DIR`, and returns
// only an error, which the shim reads from the standard error.
func Connect(name string) error {
	runtime.LockOSThread() // rights are a thread's own, and exec keeps those of the thread that calls it
	if err := closeOnExec(spaceFD); err != nil {
		return err
	}
	return connect(dir(name))
}

func connect(d dir) error {
	p, err := d.plan()
	if err != nil {
		return err
	}
	if err := networkGroup(cgroup.New(cgroup.Root, p.Cgroups), p.ID).Join(); err != nil {
		return fmt.Errorf("join the control group: %w", err)
	}
	space, users, err := showNamespaces(p.Account.UID)
	if err != nil {
		return fmt.Errorf("show pasta the namespaces: %w", err)
	}
	if err := drop(p.Account, unix.CAP_SYS_ADMIN); err != nil {
		return fmt.Errorf("give up root's rights: %w", err)
	}
	return fmt.Errorf("run %s: %w", p.Pasta, syscall.Exec(p.Pasta, p.pastaArgs(space, users), []string{}))
}

// showNamespaces binds the namespaces, in a mount namespace of the calling program's own, to where packages of pasta
// let it look; and makes the device usable for it that a host without udev has for root alone.
func showNamespaces(uid int) (space, users string, err error) {
	const runUser = "/run/user"
	at := filepath.Join(runUser, strconv.Itoa(uid), "netns")
	space, users = filepath.Join(at, "net"), filepath.Join(at, "user")
	device := filepath.Join(runUser, "tun")
	for _, act := range []func() error{
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "") },
		func() error { return os.MkdirAll(runUser, 0o755) },
		func() error {
			return unix.Mount("slipway", runUser, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k")
		},
		func() error { return os.MkdirAll(at, 0o755) },
		func() error { return bindFile(spaceFD, space) },
		func() error { return bindFile(usersNS, users) },
		func() error { return unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 200))) },
		func() error { return os.Chmod(device, 0o666) },
		func() error { return unix.Mount(device, tun, "", unix.MS_BIND, "") },
	} {
		if err := act(); err != nil {
			return "", "", err
		}
	}
	return space, users, nil
}

// bindFile binds what fd is open on to a new file.
func bindFile(fd int, name string) error {
	if err := os.WriteFile(name, nil, 0o444); err != nil {
		return err
	}
	return unix.Mount("/proc/self/fd/"+strconv.Itoa(fd), name, "", unix.MS_BIND, "")
}

// pastaArgs is pasta's command line: outward connections, no port of either side passed on to the other, and none of
// the host's loopback.
func (p plan) pastaArgs(space, users string) []string {
	return []string{
		p.Pasta, "--quiet", "--config-net", "--userns", users, "--netns", space,
		"--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none", "--no-map-gw",
	}
}

// closeOnExec marks every open file from first on, so that no program inherits what this one was started with.
func closeOnExec(first uint) error {
	const cloexec = 4 // CLOSE_RANGE_CLOEXEC, Linux 5.11
	_, _, errno := unix.Syscall(unix.SYS_CLOSE_RANGE, uintptr(first), uintptr(^uint32(0)), cloexec)
	if errno == 0 {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return errors.Join(errno, err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= int(first) {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
