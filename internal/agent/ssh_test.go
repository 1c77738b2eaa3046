package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"slipway/internal/agent/control"
	"slipway/internal/sshtunnel"
	"slipway/internal/testenv"
	"slipway/internal/tunnel"
)

// visit makes an ssh connection to the agent, as the gateway does.
func (r *rig) visit(t *testing.T) (*sshtunnel.Conn, error) {
	t.Helper()
	dial := func(ctx context.Context) (net.Conn, error) { return r.links.Dial(ctx, workload, tunnel.DoorSSH) }
	c, err := sshtunnel.Dial(t.Context(), dial, sshtunnel.Login{ID: rand.Text(), User: "alice", Address: "192.0.2.7:1234", Local: "192.0.2.1:22"}, nil)
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

// begin runs a command in a channel, on a terminal where that is wanted.
func begin(t *testing.T, c *sshtunnel.Conn, command string, terminal bool) *sshtunnel.Channel {
	t.Helper()
	ch, err := c.Open(t.Context(), "session", nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(kind string, payload []byte) {
		t.Helper()
		if ok, err := ch.Send(t.Context(), kind, true, payload); !ok || err != nil {
			t.Fatalf("%s: %v, %v", kind, ok, err)
		}
	}
	if terminal {
		ask("pty-req", ssh.Marshal(struct {
			Term       string
			C, R, W, H uint32
			Modes      string
		}{"xterm", 80, 24, 0, 0, ""}))
	}
	ask("exec", ssh.Marshal(struct{ Command string }{command}))
	return ch
}

func TestSSH(t *testing.T) {
	r := newRig(t)
	if _, err := r.visit(t); err == nil {
		t.Error("somebody is let in before the session has its environment")
	}
	app := shell("exec sleep 1000")
	app.Env = control.Env{"JUPYTERHUB_API_TOKEN": "hush", "DATA": "/data", "SHELL": "/bin/sh", "HOME": t.TempDir()}
	r.launch(t, app, control.Ready)
	c, err := r.visit(t)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(begin(t, c, "env; sleep 0.01 & exit 3", false))
	for _, want := range []string{"DATA=/data", "SLIPWAY_SOCKET=" + r.cfg.APISocket, "SSH_CLIENT=192.0.2.7 1234 22", ":" + r.cfg.BinDir} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in %s, %v", want, out, err)
		}
	}
	if strings.Contains(string(out), "hush") {
		t.Errorf("the Hub's token is in %s", out)
	}
}

// What people are to be told is told on ssh's terminals too, and is none of their activity; what they type is.
func TestSSHOnATerminal(t *testing.T) {
	r := newRig(t)
	r.launch(t, shell("exec sleep 1000"), control.Ready)
	c, err := r.visit(t)
	if err != nil {
		t.Fatal(err)
	}
	ch := begin(t, c, "echo ready; exec cat", true)
	readTo(t, ch, "ready")
	a, err := r.client.Activity(t.Context())
	if err != nil || a.SSH != 1 || a.Quiet < 0 || a.Asked {
		t.Errorf("%+v, %v", a, err)
	}
	if err := r.client.Notify(t.Context(), "It stops soon."); err != nil {
		t.Error(err)
	}
	readTo(t, ch, "It stops soon.")
	r.cancel()
	_, _ = io.ReadAll(ch) // the agent's end is the program's
}

func readTo(t *testing.T, r io.Reader, want string) {
	t.Helper()
	var seen []byte
	for b := make([]byte, 1); !strings.Contains(string(seen), want); seen = append(seen, b[0]) {
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatalf("%q, and then %v", seen, err)
		}
	}
}

// In a container the agent is the first process: it takes the ends of ssh's programs among those of orphans, and leaves
// what they left.
func TestRealSSH(t *testing.T) {
	testenv.Need(t, testenv.Docker, testenv.Notebook)
	r := newContainer(t)
	r.launch(t, shell("exec sleep 1000"), control.Ready)
	c, err := r.visit(t)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		ch := begin(t, c, fmt.Sprintf("(sleep 0.01 &); echo $PPID; exit %d", n), n%2 == 1)
		out, err := io.ReadAll(ch)
		end := <-ch.Requests()
		if end == nil || end.Kind != "exit-status" || int(end.Payload[3]) != n || strings.TrimSpace(string(out)) != "1" || err != nil {
			t.Errorf("command %d: %+v, %q, %v", n, end, out, err)
		}
	}
	leaves := "nohup setsid sh -c 'touch /tmp/begun; sleep 0.2; touch /tmp/left' >/dev/null 2>&1 & until test -e /tmp/begun; do sleep 0.01; done; "
	out, err := io.ReadAll(begin(t, c, leaves+"tty; stat -c %a $VSCODE_AGENT_FOLDER", true))
	if err != nil || !strings.HasPrefix(string(out), "/dev/pts/") || !strings.HasSuffix(string(out), "700\r\n") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := io.ReadAll(begin(t, c, "for i in $(seq 600); do test -e /tmp/left && break; sleep 0.05; done; ls /tmp/left", false)); string(out) != "/tmp/left\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}
