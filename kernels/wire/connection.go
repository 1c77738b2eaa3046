package wire

import (
	"encoding/json"
	"fmt"
	"io"
)

// Connection is what a connection file says: where a kernel's sockets are, and what its messages are signed with.
type Connection struct {
	Transport string `json:"transport"` // tcp or ipc
	IP        string `json:"ip"`        // with ipc what the sockets' paths begin with
	Scheme    string `json:"signature_scheme"`
	Key       string `json:"key"`
	Shell     int    `json:"shell_port"`
	IOPub     int    `json:"iopub_port"`
	Stdin     int    `json:"stdin_port"`
	Control   int    `json:"control_port"`
	Heartbeat int    `json:"hb_port"`
}

// Signature is the one signature scheme that a Key has.
const Signature = "hmac-sha256"

const connectionLimit = 64 << 10 // bytes of the file

// ReadConnection reads a connection file.
func ReadConnection(r io.Reader) (c Connection, err error) {
	b, err := io.ReadAll(io.LimitReader(r, connectionLimit))
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return Connection{}, fmt.Errorf("read the connection file: %w", err)
	}
	return c, nil
}

// Port returns the port of a channel.
func (c Connection) Port(channel Channel) int {
	switch channel {
	case Shell:
		return c.Shell
	case Control:
		return c.Control
	case Stdin:
		return c.Stdin
	}
	return c.IOPub
}

// Path is where libzmq has the socket of a port with the transport ipc.
func (c Connection) Path(port int) string { return fmt.Sprintf("%s-%d", c.IP, port) }
