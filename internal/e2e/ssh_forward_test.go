package e2e

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"slipway/internal/testenv"
)

// forwardFeatures are the ways to reach through.
var forwardFeatures = []feature{
	{"-L, -D, unix sockets", forwards},
	{"-R", backwards},
	{"-W and a proxy command", func(l *laptop) {
		peer := l.peer()
		e := l.run(strings.NewReader("through"), l.sshArgs("-W", "127.0.0.1:"+peer.echo)...)
		l.expect("-W", e, ended{"through", "", 0})
		e = l.run(strings.NewReader("through"), l.sshArgs("-W", "localhost:"+peer.echo)...)
		l.expect("-W by name", e, ended{"through", "", 0})
	}},
	{"a forward to where nobody listens", func(l *laptop) {
		e := l.ssh("-o", "LogLevel=INFO", "-W", "127.0.0.1:1")
		if e.code != 255 || !strings.Contains(e.errs, "refused") {
			l.t.Errorf("%+v", e)
		}
	}},
	{"-R of a port that is taken", func(l *laptop) {
		peer := l.peer()
		e := l.ssh("-N", "-o", "ExitOnForwardFailure=yes", "-R", peer.echo+":127.0.0.1:1")
		if e.code != 255 || !strings.Contains(e.errs, "forwarding failed") {
			l.t.Errorf("%+v", e)
		}
	}},
	{"-A", func(l *laptop) {
		l.withAgent()
		if got := l.remoteAgent("ssh-add -l"); !strings.Contains(got, "(ED25519)") {
			l.t.Errorf("the agent in the session: %s", got)
		}
		if e := l.ssh("ssh-add -l"); e.code == 0 {
			l.t.Errorf("without -A there is an agent: %+v", e)
		}
	}},
	{"git over the forwarded agent", gitOverAgent},
	{"-J", func(l *laptop) {
		inner := l.throughItself()
		e := l.run(nil, "ssh", "-F", inner, "-J", l.login, "inner", "echo twice; exit 6")
		l.expect("-J", e, ended{"twice\n", "", 6})
	}},
	{"X11", x11},
}

// peer is the other end in the session: ports that echo and that give pages, and a socket that echoes.
type peer struct{ echo, web, socket string }

func (l *laptop) peer() peer {
	l.t.Helper()
	socket := fmt.Sprintf("/tmp/peer-%d.sock", time.Now().UnixNano())
	p := l.start(l.sshArgs("exec python3 /tmp/peer.py serve " + socket)...)
	ports := strings.Fields(p.says("\n"))
	return peer{ports[0], ports[1], socket}
}

// echoes sends something through and expects it back, and after it the end.
func (l *laptop) echoes(network, address string) {
	l.t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testenv.Hang))
	blob := noise(1 << 20)
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(blob)
		if end, ok := c.(interface{ CloseWrite() error }); ok && err == nil {
			err = end.CloseWrite()
		}
		sent <- err
	}()
	got, err := io.ReadAll(c)
	if err := <-sent; err != nil {
		l.t.Error(err)
	}
	if err != nil || !bytes.Equal(got, blob) {
		l.t.Errorf("through %s came %d bytes of %d: %v", address, len(got), len(blob), err)
	}
}

func (l *laptop) freePort() string { return strconv.Itoa(testenv.FreePorts(l.t, 1)[0]) }

func forwards(l *laptop) {
	peer := l.peer()
	tcp, socks, toSocket := l.freePort(), l.freePort(), l.freePort()
	l.start(l.sshArgs("-N", "-L", tcp+":127.0.0.1:"+peer.echo, "-D", socks, "-L", toSocket+":"+peer.socket,
		"-L", l.path("s1")+":"+peer.socket, "-L", l.path("s2")+":localhost:"+peer.echo)...)
	l.listening("tcp", "127.0.0.1:"+socks)
	l.listening("unix", l.path("s2"))
	for _, port := range []string{tcp, toSocket} {
		l.echoes("tcp", "127.0.0.1:"+port)
	}
	for _, name := range []string{"s1", "s2"} {
		l.echoes("unix", l.path(name))
	}
	got := l.must("curl", "-sS", "--socks5-hostname", "127.0.0.1:"+socks, "http://localhost:"+peer.web+"/one", "http://127.0.0.1:"+peer.web+"/two")
	if got != "page /onepage /two" {
		l.t.Errorf("by SOCKS: %q", got)
	}
	if e := l.run(nil, "curl", "-sS", "-m", "20", "--socks5-hostname", "127.0.0.1:"+socks, "http://no-such-host.invalid/"); e.code == 0 || e.code == 28 {
		l.t.Errorf("a host that is not there: %+v", e)
	}
}

func backwards(l *laptop) {
	tcp := l.echoServer("tcp", "127.0.0.1:0")
	l.echoServer("unix", l.path("here"))
	p := l.start(l.sshArgs("-o", "LogLevel=INFO", "-R", "0:"+tcp, "-R", "/tmp/there:"+l.path("here"), "-R", "/tmp/port:"+tcp, "echo up; exec cat")...)
	p.says("up\n")
	port := regexp.MustCompile(`Allocated port (\d+) for`).FindStringSubmatch(p.complains("Allocated port"))[1]
	for _, address := range []string{"127.0.0.1:" + port, "/tmp/there", "/tmp/port"} {
		if got := l.remote("python3 /tmp/peer.py ask " + address + " hello"); got != "hello" {
			l.t.Errorf("back through %s: %q", address, got)
		}
	}
	p.stdin.Close()
	if code := p.wait(); code != 0 {
		l.t.Errorf("exit code %d: %s", code, p.errs)
	}
	l.eventually("the port in the session is closed", func() bool { return l.ssh("python3 /tmp/peer.py ask 127.0.0.1:"+port+" x").code != 0 })
	if e := l.ssh("test -e /tmp/there"); e.code != 1 {
		l.t.Errorf("the socket in the session is left: %+v", e)
	}
}

// echoServer echoes on the laptop, and gives its address.
func (l *laptop) echoServer(network, address string) string {
	l.t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		l.t.Fatal(err)
	}
	l.serve(listener, func(c net.Conn) { _, _ = io.Copy(c, c) })
	return listener.Addr().String()
}

// serve answers connections until the test ends.
func (l *laptop) serve(listener net.Listener, answer func(net.Conn)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			answer(c) // one after the other is enough here
			c.Close()
		}
	}()
	l.t.Cleanup(func() {
		listener.Close()
		<-done
	})
}

// withAgent starts an ssh-agent with the laptop's key; its socket is a file of the laptop.
func (l *laptop) withAgent() {
	l.t.Helper()
	p := l.start("ssh-agent", "-D", "-a", l.path("agent"))
	p.says("SSH_AUTH_SOCK")
	c := l.command("ssh-add", "-q", l.path("key"))
	c.Env = append(c.Env, "SSH_AUTH_SOCK="+l.path("agent"))
	if e := l.finish(c, nil); e.code != 0 {
		l.t.Fatalf("ssh-add: %+v", e)
	}
	l.t.Cleanup(func() { os.Remove(l.path("agent")) })
}

// remoteAgent is remote, with the agent forwarded.
func (l *laptop) remoteAgent(command string, flags ...string) string {
	l.t.Helper()
	c := l.command(l.sshArgs(append(append([]string{"-A"}, flags...), command)...)...)
	c.Env = append(c.Env, "SSH_AUTH_SOCK="+l.path("agent"))
	e := l.finish(c, nil)
	if e.code != 0 {
		l.t.Fatalf("%s: %+v", command, e)
	}
	return strings.TrimSpace(e.out)
}

// gitOverAgent clones and pushes from inside the session, to a repository behind ssh, with no other key than that in
// the laptop's agent. The repository's server is the gateway once more, at a port of the session that is forwarded back
// to it.
func gitOverAgent(l *laptop) {
	l.withAgent()
	l.remote("rm -rf ~/repo.git /tmp/clone && git init -q --bare -b main ~/repo.git")
	l.must("scp", "-q", "-F", l.config, l.path("known_hosts"), l.login+":/tmp/known")
	user, host, _ := strings.Cut(l.login, "@")
	port := l.gatewayPort()
	back := "127.0.0.1:" + port
	commands := fmt.Sprintf(`set -e
export GIT_SSH_COMMAND="ssh -F none -o BatchMode=yes -o UserKnownHostsFile=/tmp/known -o StrictHostKeyChecking=yes -o HostKeyAlias=[%[3]s]:%[2]s"
git -c init.defaultBranch=main clone -q ssh://%[1]s@127.0.0.1:%[2]s/home/alice/repo.git /tmp/clone 2>/dev/null
cd /tmp/clone && echo x >file && git add file && git -c user.name=a -c user.email=a@example.org commit -qm first && git push -q origin HEAD:main
cd / && rm -rf /tmp/clone && git clone -q -b main ssh://%[1]s@127.0.0.1:%[2]s/home/alice/repo.git /tmp/clone && cat /tmp/clone/file && rm -rf /tmp/clone ~/repo.git`, user, port, host)
	if got := l.remoteAgent(commands, "-R", port+":"+back); got != "x" {
		l.t.Errorf("git: %q", got)
	}
}

// gatewayPort returns the port that the laptop connects to.
func (l *laptop) gatewayPort() string {
	return regexp.MustCompile(`Port (\d+)`).FindStringSubmatch(l.read("config"))[1]
}

// throughItself makes the gateway's port reachable inside the session and gives a configuration in which `inner` is
// that.
func (l *laptop) throughItself() string {
	l.t.Helper()
	user, host, _ := strings.Cut(l.login, "@")
	port := l.gatewayPort()
	p := l.start(l.sshArgs("-o", "LogLevel=INFO", "-R", "0:"+host+":"+port, "echo up; exec cat")...)
	p.says("up\n")
	inside := regexp.MustCompile(`Allocated port (\d+) for`).FindStringSubmatch(p.complains("Allocated port"))[1]
	l.write("inner", fmt.Sprintf("Host inner\nLogLevel QUIET\nHostName 127.0.0.1\nPort %s\nUser %s\nHostKeyAlias [%s]:%s\n\n%s", inside, user, host, port, l.read("config")))
	return l.path("inner")
}

// x11 asks a play of an X server for a connection: the cookie that the session has is not the real one, which the
// server sees.
func x11(l *laptop) {
	number := testenv.FreePorts(l.t, 1)[0] - 6000
	cookie := "00112233445566778899aabbccddeeff"
	asked := make(chan []byte, 1)
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 6000+number))
	if err != nil {
		l.t.Fatal(err)
	}
	l.serve(listener, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(testenv.Hang))
		hello := make([]byte, 12+20+16)
		if _, err := io.ReadFull(c, hello); err == nil {
			asked <- hello
			_, _ = c.Write([]byte("answer"))
		}
	})
	display := fmt.Sprintf("127.0.0.1:%d", number)
	l.must("xauth", "-f", l.path(".Xauthority"), "-q", "add", display, "MIT-MAGIC-COOKIE-1", cookie)
	client := `import os, re, socket, subprocess, sys
cookie = bytes.fromhex(subprocess.run(["xauth", "list", os.environ["DISPLAY"]], capture_output=True, text=True, check=True).stdout.split()[-1])
host, number = re.fullmatch(r"(.*):(\d+)(?:\.\d+)?", os.environ["DISPLAY"]).groups()
line = socket.create_connection((host, 6000 + int(number))) if host else socket.socket(socket.AF_UNIX)
host or line.connect("/tmp/.X11-unix/X" + number)
line.sendall(b"l\0" + bytes([11, 0, 0, 0, 18, 0, 16, 0, 0, 0]) + b"MIT-MAGIC-COOKIE-1\0\0" + cookie)
print(cookie.hex(), line.recv(6).decode())`
	c := l.command(l.sshArgs("-Y", "python3 -")...)
	c.Env = append(c.Env, "DISPLAY="+display, "XAUTHORITY="+l.path(".Xauthority"))
	e := l.finish(c, strings.NewReader(client))
	if e.code != 0 || !strings.HasSuffix(e.out, " answer\n") || strings.Contains(e.out, cookie) {
		l.t.Fatalf("in the session: %+v", e)
	}
	if got := hex.EncodeToString((<-asked)[32:]); got != cookie {
		l.t.Errorf("the X server is shown %s", got)
	}
}
