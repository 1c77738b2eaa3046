package sshgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"slipway/internal/testenv"
	"slipway/spawner"
)

// blocked opens a channel of a session that takes no input, and fills it.
func blocked(t *testing.T, c *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("hang"); err != nil {
		t.Fatal(err)
	}
	var went atomic.Int64
	go func() {
		for b := make([]byte, 32<<10); ; went.Add(1) {
			if _, err := in.Write(b); err != nil {
				return
			}
		}
	}()
	still := 0
	for before := int64(-1); still < 100; still++ {
		answers(t, c)
		if now := went.Load(); now != before {
			before, still = now, 0
		}
	}
	return s
}

// answers asks whether the connection as a whole is still served.
func answers(t *testing.T, c *ssh.Client) {
	t.Helper()
	answered := make(chan error, 1)
	go func() {
		_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	if err := testenv.Receive(t, "the connection as a whole answers", answered); err != nil {
		t.Error(err)
	}
}

// TestRequestsBehindInput: a session that takes no input keeps the requests of its channel back, and nothing else. Too
// many end the connection; the sizes of a window, of which there are many while it is dragged, count once.
func TestRequestsBehindInput(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	c := h.alice("alice")
	s := blocked(t, c)
	for range 3 * mostRequests {
		if err := s.WindowChange(24, 80); err != nil {
			t.Fatal(err)
		}
	}
	for range mostRequests / 2 {
		if err := s.Signal(ssh.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	answers(t, c)
	if out, _, _ := run(t, c, "cat", "hello"); out != "hello" {
		t.Errorf("beside it: %q", out)
	}
	for err := error(nil); err == nil; {
		err = s.Signal(ssh.SIGUSR1)
	}
	eventually(t, "the log says why it was ended", func() bool { return strings.Contains(h.log.String(), tooManyRequests) })
}

// TestManyRequestsEarly: a client may ask for many variables, and drag its window, while its session is looked for. The
// command that comes behind them runs.
func TestManyRequestsEarly(t *testing.T) {
	t.Parallel()
	found := make(chan struct{})
	h := open(t, func(cfg *Config, _ *hall) {
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, id spawner.ID) (net.Conn, error) {
			select {
			case <-found:
			case <-ctx.Done():
			}
			return dial(ctx, id)
		}
	})
	s, err := h.alice("alice").NewSession()
	if err != nil {
		t.Fatal(err)
	}
	granted := 0
	for n := range 3 * mostRequests {
		if err := errors.Join(s.WindowChange(24, 80+n), s.WindowChange(25, 80+n)); err != nil {
			t.Fatal(err)
		}
		if s.Setenv(fmt.Sprintf("LC_%d", n), "x") == nil {
			granted++
		}
	}
	if granted == 0 || granted > mostRequests/2 {
		t.Errorf("%d variables are granted", granted)
	}
	close(found)
	s.Stdin = strings.NewReader("hello")
	if out, _ := s.Output("cat"); string(out) != "hello" {
		t.Errorf("the command behind them says %q", out)
	}
}

// TestInputBeforeTheCommand: more than the session holds for whom it knows no command yet does not stand in the
// command's way.
func TestInputBeforeTheCommand(t *testing.T) {
	t.Parallel()
	c := open(t, nil).alice("alice")
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.Repeat("0123456789abcdef", 7<<20/64) // of the 2 MiB that may be on their way
	if _, err := io.WriteString(in, whole); err != nil {
		t.Fatal(err)
	}
	answers(t, c) // all of it has come
	if err := errors.Join(s.Start("cat"), in.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(out); string(got) != whole || err != nil {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(whole), err)
	}
}
