package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

// connection is what a connection file of Jupyter's says.
type connection struct {
	Transport string `json:"transport"`
	IP        string `json:"ip"`
	Scheme    string `json:"signature_scheme"`
	Key       string `json:"key"`
	Shell     int    `json:"shell_port"`
	IOPub     int    `json:"iopub_port"`
	Stdin     int    `json:"stdin_port"`
	Control   int    `json:"control_port"`
	Heartbeat int    `json:"hb_port"`
}

const longestFile = 64 << 10

func readConnection(path string) (connection, error) {
	var c connection
	f, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("read the connection file: %w", err)
	}
	defer f.Close()
	b := make([]byte, longestFile)
	n, err := f.Read(b)
	if err == nil {
		err = json.Unmarshal(b[:n], &c)
	}
	if err != nil {
		return c, fmt.Errorf("read the connection file %s: %w", path, err)
	}
	return c, c.check()
}

func (c connection) check() error {
	switch {
	case c.Transport != "tcp" && c.Transport != "ipc":
		return errs.Bad("transport", c.Transport, "tcp or ipc, in the connection file")
	case c.Scheme != "hmac-sha256":
		return errs.Bad("signature_scheme", c.Scheme, "hmac-sha256, in the connection file")
	case c.Key == "":
		return errs.New(errs.Invalid, "the connection file has no key: anybody on this host could speak to the kernel").With("let Jupyter choose one: do not set Session.key")
	}
	return nil
}

// listen binds one of the kernel's ports.
func (c connection) listen(ctx context.Context, port int) (net.Listener, error) {
	var l net.ListenConfig
	if c.Transport == "tcp" {
		return l.Listen(ctx, "tcp", net.JoinHostPort(c.IP, strconv.Itoa(port)))
	}
	path := c.IP + "-" + strconv.Itoa(port)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a process before
		return nil, err
	}
	s, err := l.Listen(ctx, "unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	return s, err
}

// kernelID names the kernel that belongs to a connection file, in the form of a UUID. Jupyter keeps path and key when it restarts a kernel,
// so the next process finds the kernel again; no other has both.
func kernelID(path string, c connection) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	b := sha256.Sum256([]byte("slipway kernel\x00" + path + "\x00" + c.Key))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16]), nil
}

// port gives the port of a channel.
func (c connection) port(channel wire.Channel) int {
	switch channel {
	case wire.Shell:
		return c.Shell
	case wire.Control:
		return c.Control
	case wire.Stdin:
		return c.Stdin
	}
	return c.IOPub
}
