package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"slipway/internal/hubtest"
)

// command runs a command as a user of the Hub on a machine of her own.
func (s *hubSite) command(user string, args ...string) (out string, code int) {
	s.t.Helper()
	c := exec.Command(s.program, args...)
	c.Env = append(os.Environ(), "SLIPWAY_URL="+s.url, "SLIPWAY_TOKEN="+s.token(user))
	text, _ := c.CombinedOutput() // the exit code says more than the error
	return string(text), c.ProcessState.ExitCode()
}

// runs runs a shell command in a server, through the Hub's proxy.
func (s *hubSite) runs(user, name, command string) string {
	s.t.Helper()
	r := s.hub.Through(s.token(user), http.MethodPost, s.hub.WaitReady(user, name).URL+"run", command)
	if r.Status != http.StatusOK {
		s.t.Fatalf("%s: %s", command, r.Text())
	}
	return string(r.Body)
}

// TestStartByCommand starts servers of a real Hub by `slipway sessions start`: they are the Hub's as much as those of
// its pages.
func TestStartByCommand(t *testing.T) {
	t.Parallel()
	s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Slipway})
	expect := func(want int, args []string, words ...string) {
		t.Helper()
		out, code := s.command("alice", args...)
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("slipway %q lacks %q", args, w)
			}
		}
		if code != want || t.Failed() {
			t.Fatalf("slipway %q: exit code %d: %s", args, code, out)
		}
	}
	expect(0, []string{"sessions", "start", "--profile", "small"}, "start: ", " runs, at /user/alice/ of your Hub")
	expect(1, []string{"sessions", "start"}, "your default server runs already")
	s.runs("alice", "", "echo here > /opt/env/mark")
	expect(0, []string{"freeze", "--session", s.sessionOf("alice", "").ID, "--name", "ana", "--tag", "v1"})
	expect(0, []string{"sessions", "start", "again", "--env", "ana:v1", "--cpus", "1"}, " runs, at /user/alice/again/ of your Hub")
	if out := s.runs("alice", "again", "cat /opt/env/mark"); !strings.Contains(out, "here") {
		t.Errorf("the session of the environment has %s", out)
	}
	if server, ok := s.hub.Server("alice", "again"); !ok || !server.Ready {
		t.Errorf("the Hub knows %+v", server)
	}
	expect(1, []string{"sessions", "start", "third", "--profile", "huge"}, "huge")
	expect(1, []string{"sessions", "start", "third", "--env", "none:v9"}, "none:v9")
	s.stop("alice", "again")
	// The Hub has not looked yet when the next start asks, and what was refused before is not remembered.
	expect(0, []string{"sessions", "stop", s.sessionOf("alice", "").ID})
	expect(1, []string{"sessions", "start", "--cpus", "abc"}, `"abc"`)
	expect(0, []string{"sessions", "start"}, " runs, at /user/alice/ of your Hub")
	expect(0, []string{"sessions", "stop", s.sessionOf("alice", "").ID})
	expect(0, []string{"sessions", "start"}, " runs, at /user/alice/ of your Hub")
	s.stop("alice", "")
}
