package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/testenv"
	"slipway/internal/tunnel"
)

const jupyterPrefix = "/user/alice/"

// computeCode sends a kernel, named by its connection file, a cell that computes until there is a file /tmp/go. Without
// heartbeats: wait_for_ready calls a kernel dead when one of them takes a second, as on a machine that is busy.
const computeCode = `
import sys
from jupyter_client import BlockingKernelClient
k = BlockingKernelClient(connection_file=sys.argv[1])
k.load_connection_file()
k.start_channels(hb=False)
k.wait_for_ready(timeout=60)
cell = k.execute("import os\nwhile not os.path.exists('/tmp/go'): pass")
while True:
    m = k.get_iopub_msg(timeout=60)
    if m["parent_header"].get("msg_id") == cell and m["content"].get("execution_state") == "busy":
        break
`

// watchCode reads a terminal as JupyterLab does, until a text is on it.
const watchCode = `
import asyncio, glob, json, sys
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect
async def main():
    server = json.load(open(glob.glob("/tmp/runtime/jpserver-*.json")[0]))
    url = "ws" + server["url"][4:] + "terminals/websocket/" + sys.argv[1]
    w = await websocket_connect(HTTPRequest(url, headers={"Authorization": "token hush"}))
    print("watching", flush=True)
    seen = ""
    while sys.argv[2] not in seen:
        kind, *rest = json.loads(await w.read_message())
        seen += rest[0] if kind == "stdout" else ""
    print(json.dumps(seen))
asyncio.run(main())
`

// container is an agent that is the first process of a container of an image.
type container struct {
	*rig
	name string
	web  *http.Client
}

func newContainer(t *testing.T) *container {
	t.Helper()
	return newContainerOf(t, testenv.NotebookImage)
}

func newContainerOf(t *testing.T, image string) *container {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &container{name: filepath.Base(dir) + "-test", rig: &rig{cfg: Config{LinkSocket: filepath.Join(dir, "service.sock"), Logger: slog.New(slog.DiscardHandler)}}}
	c.serve(t)
	user := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	docker(t, "run", "--detach", "--name", c.name, "--network", "none", "--user", user, "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--tmpfs", fmt.Sprintf("%s:mode=0700,uid=%d", control.RunDir, os.Getuid()),
		"--volume", executable(t)+":"+control.Program+":ro", "--volume", dir+":"+control.LinkDir+":ro",
		"--env", "SLIPWAY_TEST_PLAY=agent", "--env", "HOME=/tmp", "--env", "JUPYTER_RUNTIME_DIR=/tmp/runtime",
		"--entrypoint", control.Program, image)
	t.Cleanup(func() { _ = exec.Command("docker", "rm", "--force", c.name).Run() })
	c.wait(t)
	c.web = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.links.Dial(ctx, workload, tunnel.DoorApp)
	}}}
	return c
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "docker", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s%s", args[0], err, out, stderr.Bytes())
	}
	return string(out)
}

// make makes a kernel or a terminal and gives the value of a field of it.
func (c *container) make(t *testing.T, what, field string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+jupyterPrefix+"api/"+what, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "token hush")
	res, err := c.web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var made map[string]any
	if b, err := io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	} else if _ = json.Unmarshal(b, &made); made[field] == nil {
		t.Fatalf("make one of %s: %s %s", what, res.Status, b)
	}
	return fmt.Sprint(made[field])
}

func (c *container) activity(t *testing.T) control.Activity {
	t.Helper()
	a, err := c.client.Activity(t.Context())
	if err != nil || !a.Asked {
		t.Fatalf("%+v, %v\n%s", a, err, c.log(t, 0, false))
	}
	return a
}

// A real Jupyter Server: what its kernels do is seen, and a notice is shown on its terminal.
func TestRealJupyter(t *testing.T) {
	testenv.Need(t, testenv.Docker, testenv.Notebook)
	c := newContainer(t)
	app := shell(`u=${JUPYTERHUB_SERVICE_URL#http://127.0.0.1:}; exec jupyter-server --allow-root --no-browser --port="${u%%/*}" ` +
		`--ServerApp.base_url="$JUPYTERHUB_SERVICE_PREFIX" --IdentityProvider.token="$JUPYTERHUB_API_TOKEN"`)
	app.Env = control.Env{"JUPYTERHUB_SERVICE_PREFIX": jupyterPrefix, "JUPYTERHUB_API_TOKEN": "hush"}
	app.HTTP, app.Jupyter, app.Ready, app.Dir = true, true, jupyterPrefix+"api", "/tmp"
	c.launch(t, app, control.Ready)
	if a := c.activity(t); a.Kernels != 0 || a.Terminals != 0 || a.Quiet != -1 {
		t.Errorf("at first: %+v", a)
	}
	t.Run("kernel", c.computes)
	t.Run("terminal", c.isTold)
}

func (c *container) computes(t *testing.T) {
	kernel := c.make(t, "kernels", "id")
	docker(t, "exec", c.name, "python3", "-c", computeCode, "/tmp/runtime/kernel-"+kernel+".json")
	var busy control.Activity
	eventually(t, "a kernel that computes", func() bool { busy = c.activity(t); return busy.Busy == 1 })
	eventually(t, "CPU time of a kernel that computes", func() bool { return c.activity(t).CPU >= busy.CPU+0.5 })
	docker(t, "exec", c.name, "touch", "/tmp/go")
	var idle control.Activity
	eventually(t, "a kernel that has computed", func() bool { idle = c.activity(t); return idle.Busy == 0 })
	if idle.Kernels != 1 || idle.Quiet < 0 || idle.Quiet > 30 {
		t.Errorf("after the cell: %+v", idle)
	}
	start := time.Now()
	eventually(t, "quiet that grows", func() bool { return c.activity(t).Quiet >= idle.Quiet+3 })
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("3 s of quiet in %v", took)
	}
}

func (c *container) isTold(t *testing.T) {
	name := c.make(t, "terminals", "name")
	watch := exec.CommandContext(t.Context(), "docker", "exec", c.name, "python3", "-c", watchCode, name, "soon")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	watch.Stderr = os.Stderr
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "watching\n" {
		t.Fatalf("%q, %v", line, err)
	}
	eventually(t, "the terminal", func() bool { return c.activity(t).Terminals == 1 })
	eventually(t, "a shell that has started", func() bool { return c.activity(t).Quiet >= 2 })
	before, asked := c.activity(t), time.Now()
	if err := c.client.Notify(t.Context(), "Slipway stops this session soon\x1b"); err != nil {
		t.Fatal(err)
	}
	var seen string
	err = json.NewDecoder(lines).Decode(&seen)
	if !strings.Contains(seen, "\r\n\aSlipway stops this session soon") || strings.Contains(seen, "soon\x1b") || watch.Wait() != nil {
		t.Errorf("the terminal shows %q, %v", seen, err)
	}
	eventually(t, "quiet that grows over the notice", func() bool {
		return c.activity(t).Quiet >= before.Quiet+3 && c.activity(t).Quiet >= time.Since(asked).Seconds()
	})
}
