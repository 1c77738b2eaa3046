package kernelproxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

// readConnection reads the file that Jupyter has written.
func readConnection(path string) (wire.Connection, error) {
	f, err := os.Open(path)
	if err != nil {
		return wire.Connection{}, fmt.Errorf("read the connection file: %w", err)
	}
	defer f.Close()
	c, err := wire.ReadConnection(f)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, check(c)
}

func check(c wire.Connection) error {
	switch {
	case c.Transport != "tcp" && c.Transport != "ipc":
		return errs.Bad("transport", c.Transport, "tcp or ipc, in the connection file")
	case c.Scheme != wire.Signature:
		return errs.Bad("signature_scheme", c.Scheme, wire.Signature+", in the connection file")
	case c.Key == "":
		return errs.New(errs.Invalid, "the connection file has no key: anybody on this host could speak to the kernel").
			With("let Jupyter choose one: do not set Session.key")
	}
	return nil
}

// listen binds one of the kernel's ports.
func listen(ctx context.Context, c wire.Connection, port int) (net.Listener, error) {
	var l net.ListenConfig
	if c.Transport == "tcp" {
		return l.Listen(ctx, "tcp", net.JoinHostPort(c.IP, strconv.Itoa(port)))
	}
	path := c.Path(port)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a process before
		return nil, err
	}
	s, err := l.Listen(ctx, "unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	return s, err
}

// kernelID names the kernel that belongs to a connection file, in the form of a UUID. Jupyter keeps path and key when
// it restarts a kernel, so the next process finds the kernel again; no other has both.
func kernelID(path string, c wire.Connection) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte("slipway kernel\x00" + path + "\x00" + c.Key))
	return wire.UUID([16]byte(sum[:16])), nil
}
