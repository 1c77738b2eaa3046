package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/testenv"
)

// manyFeatures are many things at once.
var manyFeatures = []feature{
	{"ControlMaster, 20 commands at once", controlMaster},
	{"100 connections through one -L at once", hundredForwards},
	{"100 commands on one connection at once", hundredCommands},
	{"5 connections at once", func(l *laptop) {
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() { l.expect("echo", l.ssh(fmt.Sprint("sleep 0.2; echo ", i)), ended{fmt.Sprintln(i), "", 0}) })
		}
		all.Wait()
	}},
}

func controlMaster(l *laptop) {
	control := l.path("control")
	l.start(l.sshArgs("-M", "-N", "-S", control)...)
	l.listening("unix", control)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			e := l.run(strings.NewReader(fmt.Sprint("in", i)), l.sshArgs("-S", control, fmt.Sprintf("cat; sleep 0.5; echo err%d >&2; exit %[1]d", i))...)
			l.expect("a command", e, ended{fmt.Sprint("in", i), fmt.Sprintf("err%d\n", i), i})
		})
	}
	all.Wait()
	peer, port := l.peer(), l.freePort()
	l.must(l.sshArgs("-S", control, "-O", "forward", "-L", port+":127.0.0.1:"+peer.echo)...)
	l.echoes("tcp", "127.0.0.1:"+port)
	l.must(l.sshArgs("-S", control, "-O", "exit")...)
	l.eventually("the master has ended", func() bool { _, err := os.Stat(control); return err != nil })
}

func hundredForwards(l *laptop) {
	peer, port := l.peer(), l.freePort()
	l.start(l.sshArgs("-N", "-L", port+":127.0.0.1:"+peer.echo)...)
	l.listening("tcp", "127.0.0.1:"+port)
	open := make([]net.Conn, 100)
	for i := range open {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			l.t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testenv.Hang))
		fmt.Fprintf(c, "%04d", i)
		open[i] = c
	}
	for i, c := range open {
		answer := make([]byte, 4)
		if _, err := io.ReadFull(c, answer); err != nil || string(answer) != fmt.Sprintf("%04d", i) {
			l.t.Errorf("connection %d gives %q: %v", i, answer, err)
		}
	}
}

// client is a connection of Go's own ssh client, where OpenSSH's would need a process for each thing.
func (l *laptop) client() *ssh.Client {
	l.t.Helper()
	key, err := ssh.ParsePrivateKey([]byte(l.read("key")))
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := l.dialAs(ssh.PublicKeys(key))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return c
}

// dialAs logs in by Go's client.
func (l *laptop) dialAs(how ssh.AuthMethod) (*ssh.Client, error) {
	user, host, _ := strings.Cut(l.login, "@")
	return ssh.Dial("tcp", net.JoinHostPort(host, l.gatewayPort()), &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{how}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 30 * time.Second,
	})
}

func hundredCommands(l *laptop) {
	c := l.client()
	sessions := make([]*ssh.Session, 100)
	for i := range sessions {
		s, err := c.NewSession()
		if err != nil {
			l.t.Fatalf("channel %d: %v", i, err)
		}
		sessions[i] = s
	}
	var all sync.WaitGroup
	for i, s := range sessions {
		all.Go(func() {
			if out, err := s.Output(fmt.Sprint("echo ", i)); err != nil || string(out) != fmt.Sprintln(i) {
				l.t.Errorf("channel %d: %q, %v", i, out, err)
			}
		})
	}
	all.Wait()
}
