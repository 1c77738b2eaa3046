package sshgate

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// run runs a command and gives what it has written and how it ended.
func run(t *testing.T, c *ssh.Client, command, input string) (out, stderr string, err error) {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var stdout, errout bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader(input), &stdout, &errout
	err = s.Run(command)
	return stdout.String(), errout.String(), err
}

// TestSession: what comes of a running session is its own, and nothing else.
func TestSession(t *testing.T) {
	h := open(t, nil)
	c := h.alice("alice")
	out, stderr, err := run(t, c, "cat", "hello")
	var status *ssh.ExitError
	if out != "hello" || stderr != "done" || !errors.As(err, &status) || status.ExitStatus() != 3 {
		t.Errorf("%q, %q, %v", out, stderr, err)
	}
	if out, _, _ := run(t, c, "big", ""); len(out) != 1<<20 {
		t.Errorf("%d bytes", len(out))
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := s.SendRequest("nonsense@example.org", true, nil); ok || err != nil {
		t.Errorf("an unknown request: %v, %v", ok, err)
	}
	if _, _, err := c.OpenChannel("nonsense@example.org", nil); err == nil || !strings.Contains(err.Error(), "no nonsense@example.org here") {
		t.Errorf("an unknown channel: %v", err)
	}
	if ok, answer, err := c.SendRequest("echo@example.org", true, []byte("x")); !ok || string(answer) != "x" || err != nil {
		t.Errorf("an unknown global request: %v, %q, %v", ok, answer, err)
	}
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); !ok || err != nil {
		t.Errorf("keepalive: %v, %v", ok, err)
	}
	_ = c.Close()
	eventually(t, "the logout is logged", func() bool { return strings.Contains(h.log.String(), "ssh logout") })
	for _, want := range []string{`msg="ssh login"`, "user=alice", "hub=main", "session=s-1", "key=SHA256:", "address=127.0.0.1:", `msg="ssh channel"`, "to_session=5"} {
		if !strings.Contains(h.log.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if strings.Contains(h.log.String(), "hello") {
		t.Error("the log has a payload")
	}
	if !h.engine.seen(func(e *fakeEngine) bool { return len(e.visits) == 1 && e.visits[0] == "s-1" }) {
		t.Error("the visit was not noted")
	}
	if s := h.gate.Stats(); s.Logins["ok"] != 1 || s.Channels[kindSession] != 3 || s.Read == 0 {
		t.Errorf("%+v", s)
	}
}

// TestExitBeforeTheEnd: how a command has ended is told before its output ends, for OpenSSH closes the channel then.
func TestExitBeforeTheEnd(t *testing.T) {
	h := open(t, nil)
	c := h.alice("alice")
	h.line(`"ssh login"`)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 20 {
				ch, reqs, err := c.OpenChannel(kindSession, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ C string }{"true"})); !ok || err != nil {
					t.Error(ok, err)
				}
				_, _ = io.Copy(io.Discard, ch)
				if len(reqs) == 0 {
					t.Error("its end comes first")
				}
				_ = ch.Close()
			}
		})
	}
	all.Wait()
}

// TestLeftBehind: what a client sends before it closes the channel arrives, as the last words of a forwarded
// connection.
func TestLeftBehind(t *testing.T) {
	h := open(t, nil)
	c := h.alice("alice")
	h.line(`"ssh login"`) // who leaves before has her start given up
	ch, reqs, err := c.OpenChannel(kindSession, nil)
	if err != nil {
		t.Fatal(err)
	}
	go ssh.DiscardRequests(reqs)
	if ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ C string }{"slow"})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := ch.Write(make([]byte, 300_000)); err != nil {
		t.Fatal(err)
	}
	_ = ch.CloseWrite()
	_ = ch.Close()
	eventually(t, "all has arrived", func() bool { return h.agent.has("300000 bytes, <nil>") })
}

// TestForeign: a key opens no session of another user, whatever name is given with it.
func TestForeign(t *testing.T) {
	h := open(t, nil)
	for _, login := range []string{"alice", "alice+x", "alice+", "bob2", "", "+", "bo", "alice+bob", "bob\x00"} {
		if c, err := h.client(login, h.keeper.bob); err == nil {
			t.Errorf("bob's key opens %q", login)
			_ = c.Close()
		}
	}
	if _, err := h.client("alice", newSigner(t)); err == nil {
		t.Error("an unknown key opens a session")
	}
	if h.engine.seen(func(e *fakeEngine) bool { return len(e.visits)+len(e.started) > 0 }) {
		t.Error("a session was reached or started")
	}
}
