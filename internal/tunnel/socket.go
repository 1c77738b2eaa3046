package tunnel

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

const longestSocket = 100 // bytes of a socket's path, a little under the kernel's limit

// listen makes the socket that the workload's agent dials. It appears under its name complete, with owner and mode, in
// place of whatever a killed service left there.
func listen(path string, uid int) (*net.UnixListener, error) {
	if len(path) > longestSocket {
		return nil, errs.Bad(
			"socket", path,
			fmt.Sprintf("a socket's path has at most %d bytes: choose a shorter state directory", longestSocket),
		)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || !st.IsDir() {
		return nil, errs.New(errs.NotFound, "listen on %s: its directory is not there", path)
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Chown(fresh, uid, -1), os.Rename(fresh, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close(), os.Remove(fresh))
	}
	return l, nil
}

// peerUID asks the kernel who connected.
func peerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("peer credentials: %w", err)
	}
	return int(cred.Uid), nil
}
