package sshd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/sshtunnel"
	"slipway/internal/testenv"
)

// gateway is an ssh server that lets everybody in and carries all to a Server, as the real one does.
type gateway struct {
	t       testing.TB
	server  *Server
	home    string
	dial    func(context.Context) (net.Conn, error)
	address string
	deny    []string // networks
	hostKey ssh.Signer

	mu    sync.Mutex
	conns []net.Conn
}

// newGateway starts a session's server, whose programs have env, and a gateway to it.
func newGateway(t testing.TB, env ...string) *gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "sshd")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, home: filepath.Join(dir, "home")}
	if err := os.Mkdir(g.home, 0o700); err != nil {
		t.Fatal(err)
	}
	env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.home, "SHELL=/bin/sh"}, env...)
	g.server = New(Config{Start: start, Environment: func() []string { return env }, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	socket := listen(t, "unix", filepath.Join(dir, "agent"))
	door := listen(t, "tcp", "127.0.0.1:0")
	g.address = door.Addr().String()
	g.dial = func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket.Addr().String())
	}
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	if g.hostKey, err = ssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	serving.Go(func() { accept(socket, func(c net.Conn) { serving.Go(func() { g.server.Link().Serve(ctx, c) }) }) })
	serving.Go(func() { accept(door, func(c net.Conn) { serving.Go(func() { g.serve(ctx, c) }) }) })
	hang := time.AfterFunc(2*testenv.Hang, func() { // so that what is read ends
		t.Errorf("nothing has ended within %s: all connections are dropped", 2*testenv.Hang)
		g.drop()
	})
	t.Cleanup(func() {
		hang.Stop()
		_ = door.Close()
		g.drop()
		g.server.Hangup()
		g.server.Close()
		cancel()
		_ = socket.Close()
		serving.Wait()
		_ = os.RemoveAll(dir)
	})
	return g
}

// start starts programs as an agent does that is not the first process.
func start(program string, argv []string, attr *syscall.ProcAttr) (int, Wait, error) {
	pid, err := syscall.ForkExec(program, argv, attr)
	return pid, func(context.Context) (status syscall.WaitStatus, err error) {
		for {
			if _, err = syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
				return status, err
			}
		}
	}, err
}

func listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func accept(l net.Listener, f func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		f(c)
	}
}

// drop cuts all connections of clients.
func (g *gateway) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.conns {
		_ = c.Close()
	}
}

func (g *gateway) serve(ctx context.Context, raw net.Conn) {
	g.mu.Lock()
	g.conns = append(g.conns, raw)
	g.mu.Unlock()
	cfg := &ssh.ServerConfig{NoClientAuth: true}
	cfg.Ciphers = []string{ssh.CipherAES128GCM} // the fastest
	cfg.AddHostKey(g.hostKey)
	c, channels, requests, err := ssh.NewServerConn(raw, cfg)
	if err != nil {
		return
	}
	defer c.Close()
	l, err := sshtunnel.Dial(ctx, g.dial, sshtunnel.Login{ID: rand.Text(), User: c.User(), Address: raw.RemoteAddr().String(), Local: raw.LocalAddr().String()}, g.deny)
	if err != nil {
		g.t.Error(err)
		return
	}
	defer l.Close()
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() {
		for r := range requests {
			ok, answer, _ := l.Request(ctx, r.Type, r.WantReply, r.Payload)
			_ = r.Reply(ok, answer)
		}
	})
	work.Go(func() {
		for i := range l.Opened() {
			work.Go(func() { back(ctx, c, i) })
		}
	})
	for n := range channels {
		work.Go(func() { forth(ctx, l, n) })
	}
	l.Close()
}

func back(ctx context.Context, c ssh.Conn, i *sshtunnel.Incoming) {
	out, requests, err := c.OpenChannel(i.Kind, i.Extra)
	if err != nil {
		_ = i.Refuse(prohibited, err.Error())
		return
	}
	in, err := i.Accept(ctx)
	if err != nil {
		_ = out.Close()
		return
	}
	join(ctx, in, out, requests)
}

func forth(ctx context.Context, l *sshtunnel.Conn, n ssh.NewChannel) {
	in, err := l.Open(ctx, n.ChannelType(), n.ExtraData())
	if r, ok := errors.AsType[*sshtunnel.Refusal](err); ok {
		_ = n.Reject(ssh.RejectionReason(r.Reason), r.Message)
		return
	}
	if err != nil {
		_ = n.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	out, requests, err := n.Accept()
	if err != nil {
		in.Cut()
		return
	}
	join(ctx, in, out, requests)
}

// join carries a channel. What either side says last goes before its end.
func join(ctx context.Context, in *sshtunnel.Channel, out ssh.Channel, requests <-chan *ssh.Request) {
	var said, heard, work sync.WaitGroup
	var answering sync.Mutex // an answer goes before the end
	heard.Go(func() {
		if _, err := io.Copy(in, out); err == nil {
			_ = in.CloseWrite()
		}
	})
	work.Go(func() {
		for r := range requests {
			answering.Lock()
			ok, _ := in.Send(ctx, r.Type, r.WantReply, r.Payload)
			_ = r.Reply(ok, nil)
			answering.Unlock()
		}
		heard.Wait()
		_ = in.Close()
	})
	said.Go(func() { _, _ = io.Copy(out, in) })
	said.Go(func() { _, _ = io.Copy(out.Stderr(), in.Stderr()) })
	work.Go(func() {
		said.Wait()
		_ = out.CloseWrite()
	})
	work.Go(func() {
		for r := range in.Requests() {
			ok, _ := out.SendRequest(r.Kind, r.Want, r.Payload)
			_ = r.Reply(ok)
		}
		said.Wait()
		answering.Lock()
		defer answering.Unlock()
		_ = out.Close()
	})
	work.Wait()
}

// client logs in with Go's client.
func (g *gateway) client() *ssh.Client {
	g.t.Helper()
	c, err := ssh.Dial("tcp", g.address, &ssh.ClientConfig{User: "alice", HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: testenv.Hang})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (g *gateway) session() *ssh.Session {
	g.t.Helper()
	s, err := g.client().NewSession()
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}
