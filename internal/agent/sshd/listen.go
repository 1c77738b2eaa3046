package sshd

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// listener takes connections inside the session for the client.
type listener struct {
	at   []net.Listener
	once sync.Once
}

func (l *listener) close() {
	l.once.Do(func() {
		for _, at := range l.at {
			_ = at.Close()
		}
	})
}

func tcpKey(a address) string    { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }
func unixKey(path string) string { return "unix " + path }

// add has a listener's connections carried to the client, by channels of a kind whose beginning extra gives.
func (g *guest) add(ctx context.Context, key, kind string, l *listener, extra func(net.Conn) []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.listeners) >= maxForwards || g.listeners[key] != nil {
		l.close()
		return false
	}
	g.listeners[key] = l
	for _, at := range l.at {
		g.work.Go(func() { g.accept(ctx, at, kind, extra) })
	}
	return true
}

func (g *guest) accept(ctx context.Context, at net.Listener, kind string, extra func(net.Conn) []byte) {
	for {
		c, err := at.Accept()
		if err != nil {
			return
		}
		g.work.Go(func() { g.carry(ctx, c, kind, extra(c)) })
	}
}

// carry joins a connection from inside to a channel towards the client.
func (g *guest) carry(ctx context.Context, c net.Conn, kind string, extra []byte) {
	defer c.Close()
	if !g.enter() {
		return
	}
	defer g.leave()
	ch, err := g.peer.Open(ctx, kind, extra)
	if err != nil {
		g.server.cfg.Logger.Debug(
			"a connection from inside was not taken by the ssh client", "kind", kind, "error", err,
		)
		return
	}
	g.server.join(c, ch)
}

// listenTCP listens on the loopback, whatever the client asks for: the session's other addresses are the network's to
// reach.
func (g *guest) listenTCP(ctx context.Context, payload []byte) (bool, []byte) {
	want, err := parseListenTCP(payload)
	if err != nil {
		return false, nil
	}
	l, port, err := listenLoopback(want.port)
	if err != nil {
		return false, nil
	}
	var answer []byte
	if want.port == 0 {
		answer = binary.BigEndian.AppendUint32(nil, uint32(port))
	}
	bound := address{want.host, port}
	return g.add(ctx, tcpKey(bound), "forwarded-tcpip", l, func(c net.Conn) []byte { return fromTCP(bound, c) }), answer
}

// fromTCP says where a connection has come to, as the client has named it, and from where.
func fromTCP(to address, c net.Conn) []byte {
	host, port := origin(c)
	return ssh.Marshal(struct {
		Host   string
		Port   uint32
		Origin string
		From   uint32
	}{to.host, uint32(to.port), host, port})
}

func origin(c net.Conn) (string, uint32) {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String(), uint32(a.Port)
	}
	return "127.0.0.1", 0
}

// listenLoopback listens on a port of both loopbacks, or of the one there is; port 0 is any.
func listenLoopback(port uint16) (*listener, uint16, error) {
	four, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return nil, 0, err
	}
	l := &listener{at: []net.Listener{four}}
	port = uint16(four.Addr().(*net.TCPAddr).Port)
	if six, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(int(port)))); err == nil {
		l.at = append(l.at, six)
	}
	return l, port, nil
}

// listenUnix listens at a path for the session's user alone.
func (g *guest) listenUnix(ctx context.Context, payload []byte) bool {
	path, err := parseListenUnix(payload)
	if err != nil {
		return false
	}
	l, err := listenAt(g.server.absolute(path))
	if err != nil {
		g.server.cfg.Logger.Debug("a socket for the ssh client was not made", "error", err)
		return false
	}
	extra := ssh.Marshal(struct{ Path, Reserved string }{path, ""})
	return g.add(ctx, unixKey(path), "forwarded-streamlocal@openssh.com", l, func(net.Conn) []byte { return extra })
}

// listenAt makes a socket, in the place of one that nobody listens at any more.
func listenAt(path string) (*listener, error) {
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == os.ModeSocket {
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = c.Close()
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path)
		}
	}
	own := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		// What is bound then has this mode from the beginning.
		other := raw.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) })
		return errors.Join(err, other)
	}}
	at, err := own.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return &listener{at: []net.Listener{at}}, nil
}

// cancel ends a listener.
func (g *guest) cancel(kind string, payload []byte) bool {
	var key string
	if kind == "cancel-tcpip-forward" {
		a, err := parseListenTCP(payload)
		if err != nil {
			return false
		}
		key = tcpKey(a)
	} else {
		path, err := parseListenUnix(payload)
		if err != nil {
			return false
		}
		key = unixKey(path)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.listeners[key]
	if l == nil {
		return false
	}
	l.close()
	delete(g.listeners, key)
	return true
}
