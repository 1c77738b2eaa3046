package sshd

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/testenv"
)

// openssh runs one of OpenSSH's programs against the gateway.
func (g *gateway) openssh(in, program string, args ...string) (out, errs string, code int) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), testenv.Hang)
	defer cancel()
	c := g.command(ctx, program, args...)
	var o, e bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(in), &o, &e
	err := c.Run()
	if x, ok := errors.AsType[*exec.ExitError](err); ok {
		return o.String(), e.String(), x.ExitCode()
	}
	if err != nil {
		g.t.Errorf("%s: %v", program, err)
	}
	return o.String(), e.String(), 0
}

func (g *gateway) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(g.address)
	options := []string{"-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "Port=" + port, "-o", "HostName=" + host}
	return exec.CommandContext(ctx, program, append(options, args...)...)
}

func TestOpenSSH(t *testing.T) {
	testenv.Need(t, testenv.OpenSSH)
	g := newGateway(t)
	for name, tt := range map[string]struct {
		in, out, errs string
		code          int
		args          []string
	}{
		"a command":           {args: []string{"alice@x", "echo out; echo err >&2; exit 7"}, out: "out\n", errs: "err\n", code: 7},
		"a script":            {args: []string{"-T", "alice@x"}, in: "echo $((6*7))\nexit 9\n", out: "42\n", code: 9},
		"input":               {args: []string{"alice@x", "cat"}, in: "a\nb\x00\xff", out: "a\nb\x00\xff"},
		"killed":              {args: []string{"alice@x", "kill -9 $$"}, code: 255},
		"a terminal":          {args: []string{"-tt", "alice@x", "tty >/dev/null && echo yes"}, out: "yes\r\n"},
		"an environment":      {args: []string{"-o", "SetEnv=LC_FOO=bar", "alice@x", "echo $LC_FOO"}, out: "bar\n"},
		"leaves input unread": {args: []string{"alice@x", "true"}, in: string(make([]byte, 8<<20))},
	} {
		if out, errs, code := g.openssh(tt.in, "ssh", tt.args...); out != tt.out || errs != tt.errs || code != tt.code {
			t.Errorf("%s: %q, %q, code %d", name, out, errs, code)
		}
	}
	here := t.TempDir()
	file := filepath.Join(here, "file")
	if err := os.WriteFile(file, []byte("data"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"-s", "-O"} {
		if _, errs, code := g.openssh("", "scp", way, "-p", file, "alice@x:copy"+way); code != 0 || errs != "" {
			t.Errorf("scp %s: code %d, %s", way, code, errs)
		}
		if _, errs, code := g.openssh("", "scp", way, "alice@x:copy"+way, filepath.Join(here, "back")); code != 0 || errs != "" {
			t.Errorf("scp %s: code %d, %s", way, code, errs)
		}
		if b, err := os.ReadFile(filepath.Join(here, "back")); string(b) != "data" || err != nil {
			t.Errorf("scp %s: %q, %v", way, b, err)
		}
		if st, err := os.Stat(filepath.Join(g.home, "copy"+way)); err != nil || st.Mode().Perm() != 0o640 {
			t.Errorf("scp %s: %v, %v", way, st, err)
		}
	}
}
