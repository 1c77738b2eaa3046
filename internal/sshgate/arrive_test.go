package sshgate

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/internal/sshauth"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// TestStart: progress goes to stderr, what waits goes on in its order, and stdout stays clean.
func TestStart(t *testing.T) {
	h := open(t, nil)
	going := make(chan struct{})
	h.engine.begin = func(_ context.Context, _ hubapi.ServerRequest, tell func(hubapi.Progress)) error {
		tell(hubapi.Progress{Message: "Waiting for room: number 3 in line"})
		<-going
		tell(hubapi.Progress{Message: "The container\x1b[2J starts"})
		return nil
	}
	c := h.alice("alice+gpu10")
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); !ok || err != nil {
		t.Errorf("keepalive while it starts: %v, %v", ok, err)
	}
	listening := make(chan bool, 1)
	go func() {
		ok, _, _ := c.SendRequest("tcpip-forward", true, ssh.Marshal(struct {
			A string
			P uint32
		}{"localhost", 80}))
		listening <- ok
	}()
	type result struct{ out, stderr string }
	ended := make(chan result, 1)
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var out, stderr testenv.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("hello"), &out, &stderr
	for i := range 40 { // more than x/crypto holds for itself
		if _, err := s.SendRequest("env", false, ssh.Marshal(struct{ N, V string }{"LC_X", string(rune('a' + i%26))})); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		_ = s.Run("cat")
		ended <- result{out.String(), stderr.String()}
	}()
	eventually(t, "she is told her place", func() bool { return strings.Contains(stderr.String(), "slipway: Waiting for room: number 3 in line\n") })
	if out.String() != "" {
		t.Errorf("stdout has %q", out.String())
	}
	close(going)
	r := <-ended
	if r.out != "hello" || !strings.HasSuffix(r.stderr, "done") || strings.Count(r.stderr, "number 3") != 1 || strings.Contains(r.stderr, "\x1b") {
		t.Errorf("%q, %q", r.out, r.stderr)
	}
	if !<-listening {
		t.Error("the request that waited was refused")
	}
	if !h.engine.seen(func(e *fakeEngine) bool {
		return len(e.started) == 1 && e.started[0].Options["profile"] == "gpu10" && len(e.stopped) == 0
	}) {
		t.Errorf("%+v", h.engine.started)
	}
}

// TestClearEnds: whatever keeps a user from her session, she reads it, and scripts see that it failed.
func TestClearEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		login   string
		session string
		begin   func(context.Context, hubapi.ServerRequest, func(hubapi.Progress)) error
		says    string
	}{
		"unknown profile": {"alice+gpu11", sshauth.AnySession, nil, "there is no profile of this name\nslipway: your sessions: the default one (running)\nslipway: profiles: small, gpu10\n"},
		"the start fails": {"alice+gpu10", sshauth.AnySession, func(context.Context, hubapi.ServerRequest, func(hubapi.Progress)) error {
			return errs.New(errs.Unavailable, "the start has failed: out of memory").With("ask for more")
		}, "slipway: the start has failed: out of memory: ask for more\n"},
		"no token": {"alice+gpu10", sshauth.AnySession, func(context.Context, hubapi.ServerRequest, func(hubapi.Progress)) error {
			return errs.New(errs.Missing, "the service has no token of its own at hub main and starts nothing there").With("start the server on the Hub's pages")
		}, "start the server on the Hub's pages"},
		"another session's certificate": {"alice", "gpu10", nil, `your certificate is for the session "gpu10" alone`},
		"nobody's business": {"alice+gpu10", sshauth.AnySession, func(context.Context, hubapi.ServerRequest, func(hubapi.Progress)) error {
			return errors.New("dial tcp 10.0.0.1: secret")
		}, "your administrator finds the reason"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, nil)
			h.keeper.session, h.engine.begin = tt.session, tt.begin
			c := h.alice(tt.login)
			out, stderr, err := run(t, c, "true", "")
			var status *ssh.ExitError
			if !errors.As(err, &status) || status.ExitStatus() != 255 || out != "" || !strings.Contains(stderr, tt.says) || strings.Contains(stderr, "secret") {
				t.Errorf("%q, %q, %v", out, stderr, err)
			}
			if _, err := c.Dial("tcp", "127.0.0.1:1"); err == nil {
				t.Error("a forward was opened")
			}
			if err := c.Wait(); err == nil {
				t.Error("the connection ended without an error")
			}
		})
	}
}

// TestToldOnce: where a login leads nowhere, its user reads it once, also where she only forwards.
func TestToldOnce(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	for name, tell := range map[string]func(*ssh.Client) string{
		"in a session": func(c *ssh.Client) string {
			_, stderr, _ := run(t, c, "true", "")
			return stderr
		},
		"by a forward": func(c *ssh.Client) string {
			_, err := c.Dial("tcp", "127.0.0.1:1")
			return err.Error()
		},
	} {
		cfg := h.clientConfig("alice+GPU10", h.keeper.alice)
		before := banner(cfg)
		c, err := ssh.Dial("tcp", h.address, cfg)
		if err != nil {
			t.Fatal(err)
		}
		said := before.String() + tell(c)
		if strings.Count(said, "there is no profile of this name") != 1 || !strings.Contains(said, "did you mean") {
			t.Errorf("%s: %q", name, said)
		}
		begun := time.Now()
		if err := c.Wait(); err == nil || time.Since(begun) >= tellTime {
			t.Errorf("%s: it ends after %s, %v", name, time.Since(begun), err)
		}
	}
}

// TestLost: where the link or the session is gone, no end of data and no exit status come.
func TestLost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose func(h *hall)
		says string
	}{
		"the link": {func(h *hall) { h.linkCut() }, "the connection to your session was lost"},
		"the session": {func(h *hall) {
			w := session("s-1", "", "small", spawner.Stopping, spawner.WantStopped)
			w.Outcome = &spawner.Outcome{Reason: "nothing went on in it for 2h0m0s"}
			h.engine.set(w)
		}, "your session has ended: nothing went on in it for 2h0m0s"},
		"the key": {func(h *hall) {
			h.keeper.revoke(func(p Pass) bool { return p.Owner.User == "alice" })
		}, "withdrawn"},
		"the service": {func(h *hall) { h.stop() }, "the service is being restarted; your session goes on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, nil)
			c := h.alice("alice")
			forward, err := c.Dial("tcp", "127.0.0.1:8888")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := forward.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(forward, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			terminal, err := c.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			var stderr testenv.Buffer
			terminal.Stderr = &stderr
			_ = terminal.RequestPty("xterm", 24, 80, nil)
			plain, _ := c.NewSession()
			var quiet testenv.Buffer
			plain.Stderr = &quiet
			for _, s := range []*ssh.Session{terminal, plain} {
				if err := s.Start("hang"); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Now()
			tt.lose(h)
			err = terminal.Wait()
			var missing *ssh.ExitMissingError
			if !errors.As(err, &missing) {
				t.Errorf("the terminal ends with %v", err)
			}
			_ = c.Wait()
			if took := time.Since(begun); took >= tick {
				t.Errorf("it took %s", took)
			}
			if !strings.Contains(stderr.String(), tt.says) || quiet.String() != "" {
				t.Errorf("%q, and %q", stderr.String(), quiet.String())
			}
		})
	}
}
