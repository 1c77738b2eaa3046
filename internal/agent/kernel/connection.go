package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
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

// connection says where the sockets of a kernel in a directory are. It has no key.
func connection(dir string) wire.Connection {
	return wire.Connection{
		Transport: "ipc", IP: filepath.Join(dir, "ipc"), Scheme: wire.Signature,
		Shell: shellPort, IOPub: iopubPort, Stdin: stdinPort, Control: controlPort, Heartbeat: heartbeatPort,
	}
}

// writeConnection writes a connection file with a new key, which is for nobody else, and gives the key.
func writeConnection(dir string) ([]byte, error) {
	const what = "write the kernel's connection file"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	c := connection(dir)
	c.Key = wire.NewID() + wire.NewID()
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	_ = os.Remove(connectionFile(dir)) // an old one may have had another mode
	if err := os.WriteFile(connectionFile(dir), b, 0o600); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return []byte(c.Key), nil
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
		_ = os.Remove(connection(dir).Path(p))
	}
}
