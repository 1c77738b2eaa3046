package sshd

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"slipway/internal/testenv"
)

// answering takes connections and answers each with what it said, in capitals, when it has ended.
func answering(l net.Listener) {
	accept(l, func(c net.Conn) {
		go func() {
			b, _ := io.ReadAll(c)
			_, _ = c.Write(bytes.ToUpper(b))
			_ = c.Close()
		}()
	})
}

// ask says something on a connection, ends its side, and expects the answer.
func ask(t *testing.T, c net.Conn, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	said := strings.Repeat("hello ", 50000)
	go func() {
		_, _ = io.WriteString(c, said)
		closeWrite(c)
	}()
	if b, err := io.ReadAll(c); string(b) != strings.ToUpper(said) || err != nil {
		t.Errorf("%d bytes: %.20q, %v", len(b), b, err)
	}
}

func TestDialled(t *testing.T) {
	g := newGateway(t)
	tcp := listen(t, "tcp", "127.0.0.1:0")
	unix := listen(t, "unix", filepath.Join(g.home, "s"))
	go answering(tcp)
	go answering(unix)
	defer tcp.Close()
	defer unix.Close()
	client := g.client()
	for range 3 {
		c, err := client.Dial("tcp", tcp.Addr().String())
		ask(t, c, err)
		c, err = client.Dial("unix", unix.Addr().String())
		ask(t, c, err)
	}
	c, err := client.Dial("unix", "s") // from the home on
	ask(t, c, err)
	_ = tcp.Close()
	for _, tt := range []struct{ network, to, says string }{
		{"tcp", tcp.Addr().String(), "Connection refused"},
		{"unix", filepath.Join(g.home, "none"), "No such file or directory"},
	} {
		_, err := client.Dial(tt.network, tt.to)
		if e, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || e.Reason != ssh.ConnectionFailed || e.Message != tt.says {
			t.Errorf("%s: %v", tt.to, err)
		}
	}
	_, _, err = client.OpenChannel("tun@openssh.com", nil)
	if e, ok := err.(*ssh.OpenChannelError); !ok || e.Reason != ssh.UnknownChannelType {
		t.Errorf("%v", err)
	}
	until(t, "no channel is open", func() bool { n, _ := g.server.Activity(); return n == 0 })
}

func TestUnreached(t *testing.T) {
	dialled := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for want, err := range map[string]error{
		"Connection refused":                   dialled(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"No route to host":                     dialled(os.NewSyscallError("connect", syscall.EHOSTUNREACH)),
		"Network is unreachable":               dialled(os.NewSyscallError("connect", syscall.ENETUNREACH)),
		"Connection timed out":                 dialled(os.NewSyscallError("connect", syscall.ETIMEDOUT)),
		"Name or service not known":            dialled(&net.DNSError{Name: "nosuch.invalid", IsNotFound: true}),
		"Temporary failure in name resolution": dialled(&net.DNSError{Name: "slow.example.org", IsTimeout: true}),
		"something else":                       errors.New("something else"),
	} {
		if got := unreached(err); got != want {
			t.Errorf("%v: %q", err, got)
		}
	}
}

func TestListened(t *testing.T) {
	g := newGateway(t)
	client := g.client()
	for _, host := range []string{"127.0.0.1", "0.0.0.0"} {
		l, err := client.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		go answering(l)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		ask(t, c, err)
		if _, err := client.Listen("tcp", net.JoinHostPort(host, port)); err == nil {
			t.Error("a port is listened on twice")
		}
		for _, a := range addresses(t) {
			if c, err := net.Dial("tcp", net.JoinHostPort(a, port)); err == nil {
				t.Errorf("%s: reached at %s", host, c.RemoteAddr())
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			t.Error("a listener that was canceled takes connections")
		}
	}
}

// addresses are this machine's, without the loopback's.
func addresses(t *testing.T) (list []string) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// A socket goes with its connection; one that a lost agent has left is in nobody's way.
func TestListenedAtSocket(t *testing.T) {
	g := newGateway(t)
	path := filepath.Join(g.home, "s")
	old := listen(t, "unix", path).(*net.UnixListener)
	if _, err := g.client().ListenUnix(path); err == nil {
		t.Error("a socket that somebody listens at was taken")
	}
	old.SetUnlinkOnClose(false)
	_ = old.Close()
	l, err := g.client().ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	go answering(l)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	c, err := net.Dial("unix", path)
	ask(t, c, err)
	g.drop()
	until(t, "the socket is gone", func() bool { _, err := os.Stat(path); return os.IsNotExist(err) })
}

func TestForwardsAreBounded(t *testing.T) {
	g := newGateway(t)
	client := g.client()
	taken := 0
	for range maxForwards + 3 {
		if ok, _, err := client.SendRequest("tcpip-forward", true, ssh.Marshal(struct {
			Host string
			Port uint32
		}{"localhost", 0})); ok && err == nil {
			taken++
		}
	}
	if taken != maxForwards {
		t.Errorf("%d listeners", taken)
	}
}

func TestNoMoreSessions(t *testing.T) {
	client := newGateway(t).client()
	if ok, _, err := client.SendRequest("no-more-sessions@openssh.com", true, nil); !ok || err != nil {
		t.Error(ok, err)
	}
	if _, err := client.NewSession(); err == nil {
		t.Error("a session after the last")
	}
}

func TestAgentForwarding(t *testing.T) {
	g := newGateway(t)
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key, Comment: "laptop"}); err != nil {
		t.Fatal(err)
	}
	client := g.client()
	if err := agent.ForwardToAgent(client, ring); err != nil {
		t.Fatal(err)
	}
	s, err := client.NewSession()
	if err == nil {
		err = agent.RequestAgentForwarding(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := result(s, "echo $SSH_AUTH_SOCK; stat -c %a $(dirname $SSH_AUTH_SOCK)")
	path, mode, _ := strings.Cut(strings.TrimSpace(out), "\n")
	if mode != "700" || err != nil {
		t.Fatalf("%q, %v", out, err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keys, err := agent.NewClient(c).List()
	if err != nil || len(keys) != 1 || keys[0].Comment != "laptop" {
		t.Errorf("%v, %v", keys, err)
	}
	_ = client.Close()
	until(t, "the directory is gone", func() bool { _, err := os.Stat(filepath.Dir(path)); return os.IsNotExist(err) })
	if out, _, _ := result(g.session(), "echo $SSH_AUTH_SOCK"); out != "\n" {
		t.Errorf("without being asked: %q", out)
	}
}

// An image with xauth has displays; the cookie is in a file of the connection's own.
func TestX11(t *testing.T) {
	for _, there := range []bool{true, false} {
		bin := t.TempDir()
		if there {
			if err := os.WriteFile(filepath.Join(bin, "xauth"), []byte("#!/bin/sh\necho \"$@\" >$3\ncat >>$3\n"), 0o700); err != nil { // as the real one is called
				t.Fatal(err)
			}
		}
		path := "PATH=" + bin
		if there {
			path += ":/usr/bin:/bin"
		}
		g := newGateway(t, path)
		client := g.client()
		s, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		ok, err := s.SendRequest("x11-req", true, ssh.Marshal(x11Request{true, "MIT-MAGIC-COOKIE-1", "00ff", 0}))
		if ok != there || err != nil {
			t.Fatalf("xauth %v: %v, %v", there, ok, err)
		}
		if there {
			showX11(t, client, s)
		}
	}
}

func showX11(t *testing.T, client *ssh.Client, s *ssh.Session) {
	t.Helper()
	opened := client.HandleChannelOpen("x11")
	in, _ := s.StdinPipe()
	out, _ := s.StdoutPipe()
	if err := s.Start("echo $DISPLAY; cat $XAUTHORITY; read x"); err != nil {
		t.Fatal(err)
	}
	want := "-q -f "
	var shown bytes.Buffer
	readUntil(t, io.TeeReader(out, &shown), "00ff\n")
	display, _, _ := strings.Cut(shown.String(), "\n")
	number := strings.TrimSuffix(strings.TrimPrefix(display, "localhost:"), ".0")
	if !strings.Contains(shown.String(), want) || !strings.Contains(shown.String(), "add unix:"+number+".0 MIT-MAGIC-COOKIE-1 00ff\n") {
		t.Errorf("%s", shown.String())
	}
	port := "60" + number
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := testenv.Receive(t, "a window opens", opened)
	ch, requests, err := n.Accept()
	if err != nil {
		t.Fatal(err)
	}
	go ssh.DiscardRequests(requests)
	_, _ = io.WriteString(c, "window")
	readUntil(t, ch, "window")
	if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
		t.Errorf("%s: a second connection to a display for one", c.RemoteAddr())
	}
	_ = in.Close()
}

// An open window that only says that it is still there is no activity; one in which somebody works is.
func TestMurmur(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse()
		f := &trickle{pulse: p}
		for range 720 { // an hour
			time.Sleep(5 * time.Second) // of the bubble
			f.moved(36)
		}
		if n := p.last.Load(); n != 0 {
			t.Errorf("a murmur counts, after %v", time.Duration(n))
		}
		f.moved(murmur)
		if p.last.Load() == 0 {
			t.Error("work does not count")
		}
	})
}

// No forward goes to the link's own addresses or to what the site denies, however they are written.
func TestDeniedAddresses(t *testing.T) {
	for address, refused := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::a01:203": true, "2002:a01:203::1": true, "2001:db8:5::1": true, "2001:db8:5::1%lo": true,
		"11.1.2.3": false, "2001:db8:6::1": false, "127.0.0.1": false,
	} {
		err := allowed([]string{"10.0.0.0/8", "2001:db8:5::/48"})("tcp", net.JoinHostPort(address, "80"), nil)
		if (err != nil) != refused || refused && !strings.HasPrefix(err.Error(), "slipway: this site opens no forwards to ") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := allowed([]string{"10.0.0.0"})("tcp", "127.0.0.1:80", nil); err == nil {
		t.Error("a list that cannot be read denies nothing")
	}
	for address, refused := range map[string]bool{
		"169.254.169.254": true, "fe80::1%lo": true, "::ffff:169.254.1.2": true, "64:ff9b::a9fe:a9fe": true, "2002:a9fe:a9fe::1": true, "febf::1": true,
		"127.0.0.1": false, "192.0.2.1": false, "64:ff9b::c000:201": false, "2001:db8::a9fe:a9fe": false, "169.253.0.1": false,
	} {
		if err := allowed(nil)("tcp", net.JoinHostPort(address, "80"), nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := allowed(nil)("unix", "/run/169.254.169.254:80", nil); err != nil {
		t.Error(err)
	}
	_, err := newGateway(t).client().Dial("tcp", "169.254.169.254:80")
	if e, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || e.Reason != ssh.Prohibited || !strings.Contains(e.Message, "opens no forwards to 169.254.169.254") {
		t.Errorf("%v", err)
	}
}

// TestNamesOfDeniedAddresses: a name is no way around what the site denies.
func TestNamesOfDeniedAddresses(t *testing.T) {
	g := newGateway(t)
	g.deny = []string{"127.0.0.0/8", "::1/128"}
	l := listen(t, "tcp", "127.0.0.1:0")
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"localhost", "127.0.0.1"} {
		_, err := g.client().Dial("tcp", net.JoinHostPort(host, port))
		if e, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || e.Reason != ssh.Prohibited || !strings.Contains(e.Message, "this site opens no forwards to ") {
			t.Errorf("%s: %v", host, err)
		}
	}
	g.deny = []string{"10.0.0.0/8"}
	c, err := g.client().Dial("tcp", net.JoinHostPort("localhost", port))
	if err != nil {
		t.Fatalf("what is not denied: %v", err)
	}
	_ = c.Close()
}

// However often a connection asks, it has one directory.
func TestPrivateDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	g := newGuest(nil, nil)
	first, err := g.privateDir()
	if again, err2 := g.privateDir(); again != first || err != nil || err2 != nil {
		t.Errorf("%s, then %s: %v, %v", first, again, err, err2)
	}
	g.close()
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 || err != nil {
		t.Errorf("%v is left, %v", left, err)
	}
}
