package kernels

import (
	"net"
	"syscall"
)

const pong = 32 // bytes of a frame that says no more than that the client is there

// prompt is a connection on which a client's pongs are acknowledged at once. Jupyter Servers leave Nagle's algorithm
// on: what they say next would wait until their pong is acknowledged, which can take 40 ms.
type prompt struct {
	net.Conn
	raw syscall.RawConn // nil: it is no connection to which that applies
}

// promptly finds the connection below those that encrypt it.
func promptly(c net.Conn) *prompt {
	below := c
	for {
		above, wraps := below.(interface{ NetConn() net.Conn })
		if !wraps {
			break
		}
		below = above.NetConn()
	}
	p := &prompt{Conn: c}
	if tcp, is := below.(*net.TCPConn); is {
		p.raw, _ = tcp.SyscallConn() // without it all is as it would be
	}
	return p
}

// Read reads, and has something small acknowledged.
func (p *prompt) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if err == nil && n <= pong && p.raw != nil {
		_ = p.raw.Control(acknowledge) // then it comes later
	}
	return n, err
}

// acknowledge has what has come by a TCP connection acknowledged now.
func acknowledge(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
}
