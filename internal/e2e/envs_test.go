package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// outside runs a command as a user on a machine of her own, and gives what it printed, both ways, and its exit code.
func (s *site) outside(user string, args ...string) (out string, code int) {
	s.t.Helper()
	c := exec.Command(s.program, args...)
	c.Env = append(os.Environ(), "SLIPWAY_URL="+s.url, "SLIPWAY_TOKEN=token-of-"+user)
	text, _ := c.CombinedOutput() // the exit code says more than the error
	return string(text), c.ProcessState.ExitCode()
}

// says runs a command that must succeed and say some words.
func (s *site) says(user string, args []string, words ...string) string {
	s.t.Helper()
	out, code := s.outside(user, args...)
	if code != 0 {
		s.t.Errorf("%s: slipway %q: exit code %d: %s", user, args, code, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			s.t.Errorf("%s: slipway %q lacks %q:\n%s", user, args, w, out)
		}
	}
	return out
}

// TestEnvironmentsByCommand walks what people do with environments, by the commands alone: in a session, outside, as
// another user, as the administrator.
func TestEnvironmentsByCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.session("alice", "one")
	first := s.in("alice", "echo one > /opt/env/answer && slipway freeze --name ana --tag v1 2>/tmp/steps && cat /tmp/steps")
	if !strings.HasPrefix(first, "sha256:") || !strings.Contains(first, "files, ") || !strings.Contains(first, "the session stood still for 0.") {
		t.Errorf("freeze: %s", first)
	}
	refused := s.in("alice", "ssh-keygen -q -t ed25519 -N '' -f /opt/env/id_ed25519 2>&1; rm -f /opt/env/id_ed25519.pub; echo two > /opt/env/more; slipway freeze 2>&1; echo code $?")
	if !strings.Contains(refused, "nothing was frozen: a file holds a secret\n  /opt/env/id_ed25519") || !strings.HasSuffix(refused, "code 1") {
		t.Errorf("a key was frozen: %s", refused)
	}
	s.in("alice", "slipway freeze --name ana --tag v2 --allow-secret /opt/env/id_ed25519")
	if again := s.in("alice", "slipway freeze --name ana --tag v2 2>&1"); !strings.Contains(again, "unchanged as") {
		t.Errorf("what was allowed is asked for again: %s", again)
	}
	s.says("alice", []string{"envs"}, "v1", "v2", "slipway/notebook")
	s.says("alice", []string{"envs", "show", "ana:v2", "--strip", "--packages"},
		"signed by     SHA256:", "this site: frozen by alice as ana:v2", "look like secrets:\n  /opt/env/id_ed25519", "/home/*", "of pip", "/home/alice")
	s.says("alice", []string{"envs", "diff", "ana:v1", "ana:v2", "--files"}, "2 files added", "+ /opt/env/more")
	s.says("alice", []string{"envs", "history", "ana:v2"}, "v1", "v2")
	s.says("alice", []string{"envs", "verify", "ana:v2"}, "all as the digest says", "each equal to that of session")
	s.in("alice", "echo three > /opt/env/more")
	if out, code := s.outside("alice", "envs", "verify", "ana:v2"); code != 0 || !strings.Contains(out, "went on since the freeze") || !strings.Contains(out, "/opt/env/more") {
		t.Errorf("verify after a change: %d %s", code, out)
	}
	var bill struct {
		Version string `json:"spdxVersion"`
	}
	if out, _ := s.outside("alice", "envs", "sbom", "ana:v2"); json.Unmarshal([]byte(out), &bill) != nil || bill.Version != "SPDX-2.3" {
		t.Errorf("sbom: %.300s", out)
	}
	s.shareByCommand()
	s.says("alice", []string{"envs", "tag", "ana:v1", "keep"}, "is keep")
	s.says("alice", []string{"envs", "show", "keep:"}, "also named", "ana:v1")
	s.says("alice", []string{"envs", "du"}, "own ", "shared ", "ana:v1")
	s.says("alice", []string{"envs", "rm", "ana:v1", "ana:v2"}, "is no longer ana:v1; it stays, as keep", "is no longer ana:v2; the image goes")
	s.says("root", []string{"envs", "gc", "--dry-run"}, "Nothing to remove") // it was used a moment ago
	if out, code := s.outside("alice", "envs", "gc"); code != 1 || !strings.Contains(out, "only administrators") {
		t.Errorf("gc: %d %s", code, out)
	}
	s.says("root", []string{"keys", "list", "--config", filepath.Join(s.dir, "slipway.yaml")}, "(this site)", "signs")
	s.logged("a freeze was allowed to publish secrets", "an environment is shared", "an environment's name is removed")
}

// shareByCommand has bob reach alice's environment exactly as long as she shares it, and change nothing of it.
func (s *site) shareByCommand() {
	s.t.Helper()
	bob := func(want int, args ...string) {
		s.t.Helper()
		if out, code := s.outside("bob", append([]string{"envs"}, args...)...); code != want {
			s.t.Errorf("bob: envs %q: exit code %d: %s", args, code, out)
		}
	}
	bob(1, "show", "alice/ana:v2")
	s.says("alice", []string{"envs", "share", "ana:v2", "--with", "public"}, "as alice/ana:v2")
	s.says("bob", []string{"envs", "--shared"}, "alice/ana", "public")
	bob(0, "show", "alice/ana:v2")
	bob(1, "show", "alice/ana:v1")
	bob(1, "rm", "alice/ana:v2")
	bob(1, "share", "alice/ana:v2", "--with", "private")
	bob(1, "tag", "alice/ana:v2", "mine")
	s.says("alice", []string{"envs", "share", "ana:v2", "--with", "private"}, "yours alone")
	bob(1, "show", "alice/ana:v2")
}

// logged looks for words in the service's log.
func (s *site) logged(words ...string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "serve.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, w := range words {
		if !strings.Contains(string(text), w) {
			s.t.Errorf("the service's log lacks %q", w)
		}
	}
}
