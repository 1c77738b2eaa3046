package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreePorts returns TCP ports of this host at which nobody listens, and which no other test is given before this one
// ends, in this process or in another: a server that a test starts listens only later, and may be started anew. They
// lie below those that the kernel gives to connections.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	const first, end = 10000, 32768
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		port := first + rand.IntN(end-first)
		err := reserve(t, port)
		if err == nil {
			ports = append(ports, port)
		} else if tries > 1000 {
			t.Fatal(err)
		}
	}
	return ports
}

// reserve notes for all processes that a port is given to a test: by a socket of that name, which goes with the process
// at the latest.
func reserve(t testing.TB, port int) error {
	hold, err := net.Listen("unix", fmt.Sprintf("@slipway-test-port-%d", port))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		_ = hold.Close()
		return err
	}
	_ = l.Close()
	t.Cleanup(func() { _ = hold.Close() })
	return nil
}
