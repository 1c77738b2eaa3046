package e2e

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSSHFaults kills, cuts and stops while somebody is connected.
func TestSSHFaults(t *testing.T) {
	t.Parallel()
	s := newSSHSite(t)
	id := s.startRoomy("alice", "one")
	l := s.laptop(t, "alice")
	t.Run("the service is killed", func(t *testing.T) { s.killedService(l.in(t)) })
	t.Run("a transfer is cut", func(t *testing.T) { s.cutTransfers(l.in(t)) })
	t.Run("the link is cut", func(t *testing.T) { s.cutLink(t, l.in(t), id) })
	t.Run("a laptop is gone", func(t *testing.T) { s.goneLaptop(l.in(t)) })
	t.Run("a login by the command", func(t *testing.T) { s.commandLogin(newLaptop(t, s.gateway, "alice")) })
	t.Run("the session is stopped", func(t *testing.T) { s.stoppedSession(l.in(t), id) })
	id = s.startRoomy("alice", "two")
	t.Run("the agent is stopped and killed", func(t *testing.T) { s.killedAgent(l.in(t), "slipway-"+id) })
}

// killedService kills it beside open connections: they end, the session and what runs in it do not, and a new
// connection is there at once.
func (s *sshSite) killedService(l *laptop) {
	before := l.remote("setsid sleep 1009 </dev/null >/dev/null 2>&1 & echo $!")
	port := l.freePort()
	plain := l.start(l.sshArgs("echo up; exec cat")...)
	forward := l.start(l.sshArgs("-N", "-L", port+":127.0.0.1:1")...)
	shell := l.terminal(l.sshArgs("-tt", "echo up; exec sleep 1000")...)
	plain.says("up")
	shell.says("up")
	l.listening("tcp", "127.0.0.1:"+port)
	known := l.read("known_hosts")
	s.kill()
	s.serve()
	for name, p := range map[string]*started{"a command": plain, "a forward": forward, "a shell": shell.started} {
		if code := p.wait(); code != 255 {
			l.t.Errorf("%s ends with %d", name, code)
		}
	}
	began := time.Now()
	if got := l.remote("kill -0 " + before + " && kill " + before + " && echo lives"); got != "lives" {
		l.t.Errorf("in the session: %q", got)
	}
	l.t.Logf("reconnected within %s", time.Since(began).Round(time.Millisecond))
	if now := strings.Join(s.published().knownHosts, "\n") + "\n"; now != known {
		l.t.Errorf("the host keys were\n%sand are\n%s", known, now)
	}
	l.eventually("what the connections ran has ended", func() bool { return l.ssh("pgrep -f '[s]leep 1000'").code == 1 })
}

// cutTransfers kills the service while files are on their way: no program says that it has ended well.
func (s *sshSite) cutTransfers(l *laptop) {
	l.write("large", string(noise(64<<20)))
	l.remote("head -c 1G /dev/zero >/tmp/huge")
	slow := "cat >/dev/null; " // never ends by itself: the input is slower than the test
	transfers := map[string]*started{
		"scp there":    l.start("scp", "-F", l.config, "-l", "8000", "large", l.login+":/tmp/large"),
		"scp -O there": l.start("scp", "-O", "-F", l.config, "-l", "8000", "large", l.login+":/tmp/large2"),
		"scp back":     l.start("scp", "-F", l.config, "-l", "8000", l.login+":/tmp/huge", "came"),
		"rsync there":  l.start(append(l.rsync("--bwlimit=1000"), "large", l.login+":/tmp/large3")...),
		"rsync back":   l.start(append(l.rsync("--bwlimit=1000"), l.login+":/tmp/huge", "came2")...),
		"a stream":     l.start(l.sshArgs("cat /tmp/huge; " + slow)...),
	}
	sizes := "stat -c %s /tmp/large /tmp/large2 /tmp/.large3.* 2>/dev/null | grep -c ......"
	l.eventually("all are under way", func() bool { return l.ssh(sizes).out == "3\n" && transfers["a stream"].out.len() > 0 })
	s.kill()
	s.serve()
	for name, p := range transfers {
		if code := p.wait(); code == 0 {
			l.t.Errorf("%s has ended well: %s", name, p.errs)
		}
	}
	if got := l.remote("ls /tmp/large3 2>/dev/null; rm -f /tmp/large* /tmp/huge; echo ok"); got != "ok" {
		l.t.Errorf("rsync has left a short file under its name: %s", got)
	}
	if _, err := os.Stat(l.path("came2")); err == nil {
		l.t.Error("rsync has left a short file here under its name")
	}
}

// killedAgent stops the agent amid transfers, which then go on, and kills it: no program says that it has ended well.
func (s *sshSite) killedAgent(l *laptop, container string) {
	blob := noise(16 << 20)
	l.write("large", string(blob))
	l.remote("head -c 1G /dev/zero >/tmp/huge")
	goesOn := l.start("scp", "-F", l.config, "-l", "64000", "large", l.login+":/tmp/on")
	transfers := map[string]*started{
		"scp there":    l.start("scp", "-F", l.config, "-l", "8000", "large", l.login+":/tmp/large"),
		"scp -O there": l.start("scp", "-O", "-F", l.config, "-l", "8000", "large", l.login+":/tmp/large2"),
		"scp back":     l.start("scp", "-F", l.config, "-l", "8000", l.login+":/tmp/huge", "came"),
		"rsync there":  l.start(append(l.rsync("--bwlimit=500"), "large", l.login+":/tmp/large3")...),
		"rsync back":   l.start(append(l.rsync("--bwlimit=500"), l.login+":/tmp/huge", "came3")...),
	}
	sizes := "stat -c %s /tmp/on /tmp/large /tmp/large2 /tmp/.large3.* 2>/dev/null | grep -c ......"
	l.eventually("all are under way", func() bool { return l.ssh(sizes).out == "4\n" })
	pause(l.t, container)
	<-time.After(time.Second)
	l.must("docker", "unpause", container)
	if code := goesOn.wait(); code != 0 {
		l.t.Errorf("a transfer whose agent was stopped for a second ends with %d: %s", code, goesOn.errs)
	}
	if got := l.remote("sha256sum </tmp/on"); !strings.HasPrefix(got, checksum(blob)) {
		l.t.Error("what the agent was stopped under is another file")
	}
	l.must("docker", "kill", container)
	for name, p := range transfers {
		if code := p.wait(); code == 0 {
			l.t.Errorf("%s has ended well: %s", name, p.errs)
		}
	}
	if _, err := os.Stat(l.path("came3")); err == nil {
		l.t.Error("rsync has left a short file here under its name")
	}
}

// len returns how much has come.
func (w *watched) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Len()
}

// goneLaptop kills clients in all kinds of use: nothing of theirs is left in the session.
func (s *sshSite) goneLaptop(l *laptop) {
	shell := l.terminal(l.sshArgs("-tt", "echo up; exec sleep 1001")...)
	plain := l.start(l.sshArgs("-R", "/tmp/left:127.0.0.1:1", "echo up; exec tail -c 1002")...)
	sender := l.command(l.sshArgs("exec tail -c 1001")...)
	sender.Stdin = bytes.NewReader(noise(16 << 20))
	if err := sender.Start(); err != nil {
		l.t.Fatal(err)
	}
	shell.says("up")
	plain.says("up")
	shell.end()
	plain.end()
	_ = sender.Process.Kill()
	_ = sender.Wait()
	l.eventually("nothing is left", func() bool { return l.ssh("pgrep -f '[s]leep 1001|[t]ail -c'").code == 1 })
	l.eventually("the terminal is closed", func() bool { return l.remote("ls /dev/pts") == "ptmx" })
	if e := l.ssh("-R", "/tmp/left:127.0.0.1:1", "-o", "ExitOnForwardFailure=yes", "true"); e.code != 0 {
		l.t.Errorf("the socket cannot be bound again: %s", e)
	}
}

// stoppedSession stops it under its user.
func (s *sshSite) stoppedSession(l *laptop, id string) {
	p := l.start(l.sshArgs("echo up; exec sleep 1000")...)
	p.says("up")
	if r := s.call("alice", http.MethodPost, "/api/v1/sessions/"+id+"/stop", nil); r.status != http.StatusOK {
		l.t.Fatalf("stop: %d %s", r.status, r.body)
	}
	if code := p.wait(); code != 255 && code != 143 {
		l.t.Errorf("exit code %d", code)
	}
	if e := l.ssh("true"); e.code == 0 || e.out != "" || e.errs == "" {
		l.t.Errorf("to a session that does not run, where ssh cannot start one: %s", e)
	}
}
