package sshd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/testenv"
)

// result runs a command and gives all that came of it.
func result(s *ssh.Session, command string) (out, errs string, err error) {
	var o, e bytes.Buffer
	s.Stdout, s.Stderr = &o, &e
	err = s.Run(command)
	return o.String(), e.String(), err
}

func TestExec(t *testing.T) {
	g := newGateway(t)
	for _, tt := range []struct {
		command, in, out, errs string
		code                   int
		signal                 string
	}{
		{command: "true"},
		{command: "printf 'a\\nb'", out: "a\nb"},
		{command: "echo no >&2; exit 3", errs: "no\n", code: 3},
		{command: "exit 255", code: 255},
		{command: "cat; echo after", in: "some input", out: "some inputafter\n"},
		{command: "pwd", out: g.home + "\n"},
		{command: "echo $0", out: "sh\n"},
		{command: "kill -TERM $$", signal: "TERM"},
		{command: "kill -KILL $$", signal: "KILL"},
		{command: "no-such-program-here 2>/dev/null", code: 127},
		{command: "test -t 0 || test -t 1 || test -t 2", code: 1},
		{command: "exec 0<&-; sleep 0.1; echo deaf", in: strings.Repeat("x", 4<<20), out: "deaf\n"},
		{command: "head -c 3000000 /dev/zero | tr '\\0' z", out: strings.Repeat("z", 3000000)},
	} {
		t.Run(tt.command, func(t *testing.T) {
			s := g.session()
			if tt.in != "" {
				s.Stdin = strings.NewReader(tt.in)
			}
			out, errs, err := result(s, tt.command)
			code, signal := 0, ""
			if e, ok := errors.AsType[*ssh.ExitError](err); ok {
				if signal = e.Signal(); signal == "" {
					code = e.ExitStatus()
				}
			} else if err != nil && tt.in == "" {
				t.Error(err)
			}
			if out != tt.out || errs != tt.errs || code != tt.code || signal != tt.signal {
				t.Errorf("%.100q, %.100q, code %d, signal %q, %v", out, errs, code, signal, err)
			}
		})
	}
}

// The channel is open as long as something holds the program's output; what does not outlives it.
func TestBackground(t *testing.T) {
	g := newGateway(t)
	s := g.session()
	out, _ := s.StdoutPipe()
	if err := s.Start("(while ! test -e go; do sleep 0.05; done; echo late) & echo early"); err != nil {
		t.Fatal(err)
	}
	readUntil(t, out, "early\n")
	if err := os.WriteFile(filepath.Join(g.home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); string(rest) != "late\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if out, _, err := result(g.session(), "nohup sh -c 'sleep 0.3; touch survived' >/dev/null 2>&1 & exit 4"); out != "" || err == nil {
		t.Errorf("%q, %v", out, err)
	}
	until(t, "what was left in the background has run", func() bool {
		_, err := os.Stat(filepath.Join(g.home, "survived"))
		return err == nil
	})
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testenv.Until(t, what, testenv.Hang, ok)
}

func TestEnvironment(t *testing.T) {
	g := newGateway(t, "SLIPWAY_SOCKET=/run/s", "BEARER_TOKEN_FILE=/run/t", "A=1", "A=2")
	s := g.session()
	for name, want := range map[string]bool{"LANG": true, "": false, "A=B": false} {
		if err := s.Setenv(name, "C.UTF-8"); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
	out, _, err := result(s, "env")
	if err != nil {
		t.Fatal(err)
	}
	all := "\n" + out
	for _, want := range []string{
		"SLIPWAY_SOCKET=/run/s", "BEARER_TOKEN_FILE=/run/t", "A=2", "HOME=" + g.home, "SHELL=/bin/sh", "LANG=C.UTF-8", "SSH_CLIENT=127.0.0.1 ",
		"SSH_CONNECTION=127.0.0.1 ", "LOGNAME=", "USER=", fmt.Sprintf("VSCODE_AGENT_FOLDER=%s%d", editors, os.Getuid()),
	} {
		if !strings.Contains(all, "\n"+want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	for _, no := range []string{"A=1\n", "SSH_TTY", "TERM="} {
		if strings.Contains(all, "\n"+no) || strings.Contains(all, "="+no) {
			t.Errorf("%s is in %s", no, out)
		}
	}
}

func TestEnvironmentIsBounded(t *testing.T) {
	s := newGateway(t).session()
	taken := 0
	for n := range maxVariables + 10 {
		if s.Setenv(fmt.Sprint("V", n), strings.Repeat("x", 1000)) == nil {
			taken++
		}
	}
	if taken != maxVariables {
		t.Errorf("%d variables were taken", taken)
	}
	if err := newGateway(t).session().Setenv("BIG", strings.Repeat("x", maxValue+1)); err == nil {
		t.Error("a large one was taken")
	}
}

// onTerminal begins a command on a terminal; what it shows is read from the reader.
func onTerminal(t *testing.T, s *ssh.Session, modes ssh.TerminalModes, command string) (io.WriteCloser, io.Reader) {
	t.Helper()
	if err := s.RequestPty("vt100", 33, 77, modes); err != nil {
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
	if command == "" {
		err = s.Shell()
	} else {
		err = s.Start(command)
	}
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

func TestTerminal(t *testing.T) {
	g := newGateway(t)
	s := g.session()
	_, out := onTerminal(t, s, nil, `stty size; echo $TERM; test "$(tty)" = "$SSH_TTY" && echo same; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done`)
	want := "33 77\r\nvt100\r\nsame\r\nready\r\n"
	b := make([]byte, len(want))
	if _, err := io.ReadFull(out, b); err != nil || string(b) != want {
		t.Fatalf("%q, %v", b, err)
	}
	if err := s.WindowChange(40, 100); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(out); string(rest) != "40 100\r\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if e, ok := errors.AsType[*ssh.ExitError](s.Wait()); !ok || e.ExitStatus() != 5 {
		t.Errorf("%v", e)
	}
}

func TestTerminalModes(t *testing.T) {
	s := newGateway(t).session()
	_, out := onTerminal(t, s, ssh.TerminalModes{ssh.ECHO: 0, ssh.VINTR: 7, ssh.VEOL: 255, ssh.ONLCR: 0, ssh.TTY_OP_OSPEED: 9600}, "stty -a")
	b, err := io.ReadAll(out)
	for _, want := range []string{" -echo ", "intr = ^G", "eol = <undef>", "-onlcr", " icanon"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in %s, %v", want, b, err)
		}
	}
}

// A login shell is one, has job control, and what a signal or a key interrupts.
func TestShell(t *testing.T) {
	g := newGateway(t)
	in, out := onTerminal(t, g.session(), ssh.TerminalModes{ssh.ECHO: 0}, "")
	_, _ = io.WriteString(in, "echo $0; sh -c 'echo asleep; exec sleep 1000'\n")
	readUntil(t, out, "-sh")
	readUntil(t, out, "asleep") // and the terminal is its own by now
	_, _ = io.WriteString(in, "\x03")
	_, _ = io.WriteString(in, "sleep 1000 & echo back; exit 6\n")
	readUntil(t, out, "back")
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
}

func readUntil(t *testing.T, r io.Reader, want string) {
	t.Helper()
	var seen []byte
	for b := make([]byte, 1); !bytes.Contains(seen, []byte(want)); seen = append(seen, b[0]) {
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatalf("%q, and then %v", seen, err)
		}
	}
}

// What is left in the background of a terminal neither holds the channel nor cuts what was shown before.
func TestTerminalDrains(t *testing.T) {
	g := newGateway(t)
	_, out := onTerminal(t, g.session(), nil, "trap '' HUP; (while ! test -e go; do sleep 0.05; done; touch gone) & head -c 60000 /dev/zero | tr '\\0' y; echo")
	if b, err := io.ReadAll(out); len(b) != 60002 || err != nil {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if err := os.WriteFile(filepath.Join(g.home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "what is in the background goes on", func() bool {
		_, err := os.Stat(filepath.Join(g.home, "gone"))
		return err == nil
	})
}

func TestSignals(t *testing.T) {
	s := newGateway(t).session()
	_, out := onTerminal(t, s, nil, "trap 'echo told; exit 0' USR1; echo ready; while :; do sleep 0.05; done")
	readUntil(t, out, "ready")
	if err := s.Signal(ssh.SIGUSR1); err != nil {
		t.Error(err)
	}
	if b, _ := io.ReadAll(out); !bytes.Contains(b, []byte("told")) {
		t.Errorf("%q", b)
	}
}

// A connection that drops hangs its terminals up, and leaves other programs running.
func TestDropped(t *testing.T) {
	signal.Ignore(syscall.SIGHUP) // as who has started it by nohup
	t.Cleanup(func() { signal.Reset(syscall.SIGHUP) })
	g := newGateway(t)
	_, out := onTerminal(t, g.session(), nil, "trap 'touch hung; exit' HUP; echo ready; while :; do sleep 0.05; done")
	readUntil(t, out, "ready")
	s := g.session()
	w, _ := s.StdinPipe()
	piped, _ := s.StdoutPipe()
	if err := s.Start("echo ready; cat; touch ended"); err != nil {
		t.Fatal(err)
	}
	readUntil(t, piped, "ready")
	g.drop()
	_ = w.Close()
	for _, name := range []string{"hung", "ended"} {
		until(t, name, func() bool { _, err := os.Stat(filepath.Join(g.home, name)); return err == nil })
	}
	until(t, "no channel is open", func() bool { n, _ := g.server.Activity(); return n == 0 })
	until(t, "the connection is forgotten", func() bool {
		g.server.mu.Lock()
		defer g.server.mu.Unlock()
		return len(g.server.guests) == 0
	})
}

// What still runs ends with the server, and nothing more is started.
func TestEnd(t *testing.T) {
	g := newGateway(t)
	s := g.session()
	out, _ := s.StdoutPipe()
	if err := s.Start("trap '' HUP; echo ready; while :; do sleep 0.05; done"); err != nil {
		t.Fatal(err)
	}
	readUntil(t, out, "ready")
	g.server.Hangup()
	if err := g.session().Run("true"); err == nil {
		t.Error("a program was started at the end")
	}
	g.server.Close()
	if len(g.server.running) > 0 {
		t.Error("programs run after the end")
	}
}

func TestActivity(t *testing.T) {
	g := newGateway(t)
	if n, last := g.server.Activity(); n != 0 || !last.IsZero() {
		t.Errorf("%d channels, %v", n, last)
	}
	s := g.session()
	in, _ := s.StdinPipe()
	out, _ := s.StdoutPipe()
	if err := s.Start("cat"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, "x")
	readUntil(t, out, "x")
	n, last := g.server.Activity()
	if n != 1 || time.Since(last) > time.Minute {
		t.Errorf("%d channels, %v", n, last)
	}
	if _, err := s.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Error(err)
	}
	if _, now := g.server.Activity(); now != last {
		t.Error("a keepalive counts")
	}
}
