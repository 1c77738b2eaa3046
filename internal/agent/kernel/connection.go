package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"slipway/kernels/wire"
)

// The numbers that take the place of ports in the names of sockets.
const (
	shellPort = iota + 1
	iopubPort
	stdinPort
	controlPort
	heartbeatPort
)

func connectionFile(dir string) string { return filepath.Join(dir, "connection.json") }

// socketPath is where libzmq listens for ipc://<prefix>-<port>.
func socketPath(dir string, port int) string { return prefix(dir) + "-" + strconv.Itoa(port) }

func prefix(dir string) string { return filepath.Join(dir, "ipc") }

func port(c wire.Channel) int {
	switch c {
	case wire.Shell:
		return shellPort
	case wire.Control:
		return controlPort
	case wire.Stdin:
		return stdinPort
	}
	return iopubPort
}

// writeConnection writes a connection file with a new key, which is for nobody else, and gives the key.
func writeConnection(dir string) ([]byte, error) {
	const what = "write the kernel's connection file"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	secret := wire.NewID() + wire.NewID()
	b, err := json.Marshal(map[string]any{
		"transport": "ipc", "ip": prefix(dir), "signature_scheme": "hmac-sha256", "key": secret,
		"shell_port": shellPort, "iopub_port": iopubPort, "stdin_port": stdinPort, "control_port": controlPort, "hb_port": heartbeatPort,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	_ = os.Remove(connectionFile(dir)) // an old one may have had another mode
	if err := os.WriteFile(connectionFile(dir), b, 0o600); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return []byte(secret), nil
}

const dialEvery = 5 * time.Millisecond // until the kernel listens

// dial connects to a socket of a kernel, which may not listen yet.
func dial(ctx context.Context, path string) (net.Conn, error) {
	every := time.NewTicker(dialEvery)
	defer every.Stop()
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			return c, nil
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to the kernel: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// clearSockets removes what a process before has left, so that nobody takes it for the next one's.
func clearSockets(dir string) {
	for p := shellPort; p <= heartbeatPort; p++ {
		_ = os.Remove(socketPath(dir, p))
	}
}
