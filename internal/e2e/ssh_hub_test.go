package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/internal/hubtest"
	"slipway/internal/testenv"
)

// newSSHHub is a whole site with a real Hub and with ssh. It has a profile whose sessions are stopped soon if nobody
// connects.
func newSSHHub(t *testing.T, cpus float64) (*hubSite, gateway) {
	testenv.Need(t, testenv.OpenSSH)
	s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Slipway, cpus: cpus, service: fmt.Sprintf(
		`  - {name: brief, display_name: Brief, kind: lab, images: [notebook], cpus: 0.5, memory: 512M, first_connect: 4s, warning: 1s}
ssh: {listen: "127.0.0.1:%d", host: 127.0.0.1}`, testenv.FreePorts(t, 1)[0])})
	return s, s.published()
}

// laptop makes the machine of a user of the Hub, whose key is registered by the command.
func (s *hubSite) laptop(t testing.TB, g gateway, user string) *laptop {
	t.Helper()
	l := newLaptop(t, g, user)
	if out, code := s.command(user, "ssh-key", "add", l.path("key.pub")); code != 0 {
		t.Fatalf("slipway ssh-key add: %s", out)
	}
	return l
}

// TestSSHStarts has ssh start servers of a real Hub.
func TestSSHStarts(t *testing.T) {
	t.Parallel()
	s, g := newSSHHub(t, 4)
	l := s.laptop(t, g, "alice")
	e := l.as("alice+small").ssh("echo in; exit 3")
	if e.code != 3 || e.out != "in\n" || strings.Count(e.errs, "\n") < 2 {
		t.Fatalf("a login that starts a session: %s", e)
	}
	t.Logf("what is told of the start:\n%s", e.errs)
	if server, ok := s.hub.Server("alice", "small"); !ok || !server.Ready {
		t.Errorf("the Hub knows %+v", server)
	}
	l.expect("to the session that runs", l.as("alice+small").ssh("echo again"), ended{"again\n", "", 0})
	l.write("file", "text")
	l.must("scp", "-F", l.config, "file", l.as("alice+small").login+":/opt/env/file")
	l.remote("echo default") // no target: the default server, which is started
	if got := l.remote("cat /opt/env/file 2>/dev/null; echo other"); got != "other" {
		t.Errorf("the default session is the one named small: %s", got)
	}
	if w := s.sessionOf("alice", ""); w.Profile != "small" || w.Phase != "running" {
		t.Errorf("the default server is %+v", w)
	}
	s.stop("alice", "") // which a login for the profile would get to
	s.stop("alice", "small")
	if got := l.as("alice+small").remote("cat /opt/env/file"); got != "text" {
		t.Errorf("a session that was stopped and is started again: %q", got)
	}
	e = l.as("alice+huge").ssh("echo in")
	if e.code == 0 || e.out != "" || !strings.Contains(e.errs, "huge") || !strings.Contains(e.errs, "small, whole, absent, brief") {
		t.Errorf("an unknown name: %s", e)
	}
	e = l.as("alice+absent").ssh("echo in")
	if e.code == 0 || e.out != "" || !strings.Contains(e.errs, "no-such-image") {
		t.Errorf("a profile whose sessions cannot start: %s", e)
	}
	s.firstConnect(l.as("alice+brief"))
	s.browserLogin(newLaptop(t, g, "alice").as("alice+small"))
	mallory := s.laptop(t, g, "mallory").as("alice+small")
	mallory.refused(mallory.sshArgs("true")...)
	s.comesBack(g)
}

// comesBack has the Hub lose a user, as when it comes up with an old database: she may not come in. When it has her
// again, her key is hers.
func (s *hubSite) comesBack(g gateway) {
	l := s.laptop(s.t, g, "dave").as("dave+small")
	if r := s.hub.Call(http.MethodDelete, "/users/dave", nil); r.Status != http.StatusNoContent {
		s.t.Fatalf("delete dave: %s", r.Text())
	}
	l.refused(l.sshArgs("true")...)
	s.hub.AddUser("dave")
	if got := l.remote("echo in"); got != "in" {
		s.t.Errorf("whom the Hub knows again: %q", got)
	}
	s.stop("dave", "small")
}

// firstConnect starts a session that nobody connects to: it is stopped, and what is in it comes back when somebody
// does.
func (s *hubSite) firstConnect(l *laptop) {
	s.startOnly("alice", "brief", map[string]any{"profile": "brief"})
	s.eventually("a session that nobody connects to is stopped", func() bool { return s.sessionOf("alice", "brief").Phase == "stopped" })
	if out, code := s.command("alice", "sessions", "resume", "brief"); code != 0 {
		l.t.Fatalf("slipway sessions resume: %s", out)
	}
	p := l.start(l.sshArgs("echo up; exec cat")...)
	p.says("up")
	<-time.After(6 * time.Second) // longer than it may be without a visit
	if w := s.sessionOf("alice", "brief"); w.Phase != "running" {
		l.t.Errorf("a session with somebody in it is %s", w.Phase)
	}
	p.end()
	s.stop("alice", "brief")
}

// TestSSHInLine waits for room by ssh, gives up, and gets it.
func TestSSHInLine(t *testing.T) {
	t.Parallel()
	s, g := newSSHHub(t, 1)
	s.start("alice", "", map[string]any{"profile": "whole"})
	bob, carol := s.laptop(t, g, "bob").as("bob+whole"), s.laptop(t, g, "carol").as("carol+whole")
	shell := bob.terminal(bob.sshArgs("-tt", "echo in")...)
	shell.says("in line")
	waiting := carol.start(carol.sshArgs("echo in")...)
	waiting.complains("in line")
	shell.types("\x03")
	if code := shell.wait(); code == 0 || strings.Contains(shell.out.String(), "in\r\n") {
		t.Errorf("bob, who gave up, has ended with %d: %s", code, shell.out)
	}
	s.gone("bob", "whole")
	if r := s.as(hubtest.Admin, http.MethodGet, "/sessions", nil); strings.Count(string(r.body), `"pending"`) != 1 {
		t.Errorf("in line is not carol alone: %s", r.body)
	}
	s.stop("alice", "")
	if code := waiting.wait(); code != 0 || waiting.out.String() != "in\n" {
		t.Errorf("carol has waited and ends with %d: %s %s", code, waiting.out, waiting.errs)
	}
	gone := bob.start(bob.sshArgs("echo in")...)
	gone.complains("in line")
	gone.end() // as when the lid is closed: the place is kept for a while
	back := bob.terminal(bob.sshArgs("-tt", "echo in")...)
	back.says("in line")
	if r := s.as(hubtest.Admin, http.MethodGet, "/sessions", nil); strings.Count(string(r.body), `"pending"`) != 1 {
		t.Errorf("in line is not bob alone: %s", r.body)
	}
	back.types("\x03")
	back.wait()
	s.gone("bob", "whole")
}
