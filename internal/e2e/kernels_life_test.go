package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"slipway/internal/testenv"
)

const lifeSite = `
kernels:
  max_per_user: 3
  max_warm_load: 0
  specs:
    - {name: python, display_name: Python here, profile: small}
    - {name: missing, display_name: Not in the image, profile: small, argv: [no-such-kernel, "{connection_file}"]}
    - {name: warm, display_name: Stands by, profile: small, max_warm: 1}
`

// heard is one message of a kernel's, as a notebook has it.
type heard struct {
	Type   string `json:"msg_type"`
	ID     string `json:"msg_id"`
	Parent struct {
		ID string `json:"msg_id"`
	} `json:"parent_header"`
	Content struct {
		Name, Text, Status string
		State              string `json:"execution_state"`
	}
}

// next reads one message.
func (n *openKernel) next() (heard, error) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), testenv.Hang)
	defer cancel()
	_, data, err := n.ws.Read(ctx)
	if err != nil {
		return heard{}, err
	}
	var m heard
	if err := json.Unmarshal(data, &m); err != nil {
		n.Fatal(err)
	}
	return m, nil
}

// told reads until Slipway says something, and gives it with the cell that it stands under.
func (n *openKernel) told() (text, cell string) {
	n.Helper()
	for {
		m, err := n.next()
		if err != nil {
			n.Fatalf("before it is told: %v", err)
		}
		if m.Type == "stream" && m.Content.Name == "stderr" && strings.HasPrefix(m.Content.Text, "Slipway: ") {
			return m.Content.Text, m.Parent.ID
		}
	}
}

// What goes wrong with a kernel is told in its notebook, under the cell that ran, and what it held is free.
func TestKernelsFateIsTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, lifeSite)
	j := &jupyter{t, s.url + "/kernels", "token-of-alice"}
	start := func() string {
		return s.call("alice", http.MethodPost, "/kernels/api/kernels", `{"name": "python"}`).object(t)["id"].(string)
	}
	id := start()
	n := j.open(id)
	running := func() (containers []string) {
		for _, w := range s.list("alice", "sessions") {
			if w["phase"] == "running" {
				containers = append(containers, "slipway-"+w["id"].(string))
			}
		}
		return containers
	}
	docker := func(t *testing.T, argv ...string) string {
		t.Helper()
		argv = append(argv, running()...)
		out, err := exec.CommandContext(t.Context(), "docker", argv...).CombinedOutput()
		if err != nil {
			t.Fatalf("docker %v: %s, %v", argv, out, err)
		}
		return strings.TrimSpace(string(out))
	}
	t.Run("many reconnects", func(t *testing.T) { n.reconnects(t, id) })
	t.Run("paused container", func(t *testing.T) {
		for _, container := range running() {
			pause(t, container)
		}
		cell := n.run("print('goes on')")
		if state := s.call("alice", http.MethodGet, "/kernels/api/kernels/"+id, nil).object(t)["execution_state"]; state != "unknown" {
			t.Errorf("a kernel that does not answer is %v", state)
		}
		docker(t, "unpause")
		if got := n.until("stream", cell); !strings.Contains(got, "goes on") {
			t.Errorf("what was sent meanwhile: %s", got)
		}
	})
	t.Run("killed container", func(t *testing.T) {
		cell := n.run("import time\nprint('runs', flush=True)\ntime.sleep(600)")
		n.until("stream", cell)
		docker(t, "kill")
		if text, under := n.told(); under != cell || !strings.Contains(text, "was ended outside Slipway") {
			t.Errorf("%q under %s", text, under)
		}
		if got := n.until("execute_reply", cell); !strings.Contains(got, "the kernel has ended before") {
			t.Errorf("its cell is answered: %s", got)
		}
		for m := (heard{}); m.Content.State != "dead"; {
			var err error
			if m, err = n.next(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := n.next(); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Error(err)
		}
		s.eventually("what it held is free", func() bool {
			return string(s.call("alice", http.MethodGet, "/kernels/api/kernels", nil).body) == "[]\n"
		})
		a := s.call("alice", http.MethodPost, "/kernels/api/kernels/"+id+"/restart", nil)
		if a.status != http.StatusOK || a.object(t)["execution_state"] != "idle" {
			t.Fatalf("restart: %d %s", a.status, a.body)
		}
		n := j.open(id)
		if got := n.until("stream", n.run("print('runs again')")); !strings.Contains(got, "runs again") {
			t.Errorf("after its restart: %s", got)
		}
		s.asAlice("kernels", "stop", "--all")
	})
	t.Run("too much memory", func(t *testing.T) {
		n := j.open(start())
		cell := n.run("x = bytearray(400 << 20)\ny = bytearray(400 << 20)\nfor b in (x, y):\n  for i in range(0, len(b), 4096): b[i] = 1")
		text, under := n.told()
		if !strings.Contains(text, "needed more than its 512 MiB of memory and was killed, and begins anew") || under != cell {
			t.Errorf("%q under %s", text, under)
		}
		if got := n.until("stream", n.run("print('x' in globals())")); !strings.Contains(got, "False") {
			t.Errorf("afterwards: %s", got)
		}
	})
	t.Run("killed agent", func(t *testing.T) {
		s.asAlice("kernels", "stop", "--all")
		n := j.open(start())
		n.until("stream", n.run("print('runs')"))
		agent, err := strconv.Atoi(docker(t, "inspect", "--format={{.State.Pid}}"))
		if err == nil {
			err = syscall.Kill(agent, syscall.SIGKILL)
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := n.told(); !strings.Contains(text, "its container was killed from outside (signal 9)") {
			t.Errorf("without its agent: %q", text)
		}
	})
	t.Run("no program", func(t *testing.T) {
		answer := s.call("alice", http.MethodPost, "/kernels/api/kernels", `{"name": "missing"}`)
		if answer.status != http.StatusServiceUnavailable || !strings.Contains(string(answer.body), "no-such-kernel") {
			t.Errorf("%d %s", answer.status, answer.body)
		}
	})
	s.asAlice("kernels", "stop", "--all")
	t.Run("stood by", func(t *testing.T) { kernelThatStoodBy(t, s, j) })
}

// reconnects has a client come again a hundred times while a cell prints. It misses nothing; what it gets twice is what
// it had not said that it has, and is known by its id.
func (n *openKernel) reconnects(t *testing.T, id string) {
	const lines = 2000
	cell := n.run(fmt.Sprintf("import time\nfor i in range(%d):\n  print(i, flush=True)\n  time.sleep(0.001)\nprint('end')", lines))
	var text strings.Builder
	seen, twice := map[string]bool{}, 0
	read := func() (idle bool) {
		m, err := n.next()
		if err != nil {
			t.Fatal(err)
		}
		if m.Parent.ID != cell {
			return false
		}
		if seen[m.ID] {
			twice++
			return false
		}
		if seen[m.ID] = true; m.Type == "stream" {
			text.WriteString(m.Content.Text)
		}
		return m.Content.State == "idle"
	}
	done := false
	for i := 0; i < 100; i++ {
		for range 5 {
			done = read() || done
			if done {
				break
			}
		}
		_ = n.ws.CloseNow()
		n.ws = n.dial(id)
		if done {
			break
		}
	}
	for !done {
		done = read()
	}
	var want strings.Builder
	for i := range lines {
		fmt.Fprintln(&want, i)
	}
	if got := text.String(); got != want.String()+"end\n" {
		t.Errorf("%d bytes are not what was printed (%d twice): %.200q", len(got), twice, got)
	}
	t.Logf("%d of %d messages came twice", twice, len(seen)+twice)
}
