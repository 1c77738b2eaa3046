package kernels

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

// connected is a TCP connection, and what its client can write to.
func connected(t *testing.T) (*net.TCPConn, net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn), client
}

// The kernel acknowledges at once, or waits for something to send, as this option says just now.
func TestPongsAreAcknowledgedAtOnce(t *testing.T) {
	c, client := connected(t)
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]int{pong: 1, pong + 1: 0} {
		atOnce := -1
		_ = raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 0)
		})
		if _, err := io.WriteString(client, strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		if n, err := promptly(c).Read(make([]byte, 100)); n != size || err != nil {
			t.Fatal(n, err)
		}
		_ = raw.Control(func(fd uintptr) {
			atOnce, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK)
		})
		if atOnce != want {
			t.Errorf("%d bytes: %d", size, atOnce)
		}
	}
}

func TestPromptBelowTLS(t *testing.T) {
	c, _ := connected(t)
	if promptly(tls.Server(c, &tls.Config{})).raw == nil {
		t.Error("the connection below is not found")
	}
	other, _ := net.Pipe()
	if promptly(other).raw != nil {
		t.Error("a pipe has nothing to acknowledge")
	}
}
