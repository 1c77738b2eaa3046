package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const slicedSite = `
gpu: {driver: simulated, simulated: [H200/mig], devices: [{match: 0, mode: mig}]}
kernels:
  max_per_user: 4
  specs:
    - {name: slice, profile: small, gpu: 1g.18gb, gpus: [3g.71gb, 7g.141gb]}
`

// Who switches has her next kernel on another slice, and the one after she has switched back on the usual one. For what
// is taken she waits, and is told.
func TestSwitchedSlices(t *testing.T) {
	t.Parallel()
	s := newSite(t, slicedSite)
	j := &jupyter{t, s.url + "/kernels", "token-of-alice"}
	on := func(n *openKernel, want string) {
		t.Helper()
		if got := n.prints("import os; print(os.environ['SLIPWAY_GPU'])"); !strings.HasPrefix(got, want+" of ") {
			t.Errorf("it is on %q, want %s", got, want)
		}
	}
	switched := func(to string, want ...string) {
		t.Helper()
		out := s.asAlice("kernels", "switch", "gpu", to)
		for _, word := range want {
			if !strings.Contains(out, word) {
				t.Errorf("switched to %s there is no %q: %s", to, word, out)
			}
		}
	}
	_, usual := j.kernel(s, "slice")
	on(usual, "1g.18gb")
	switched("3g.71gb", "your next kernels of slice have 3g.71gb", "One that runs keeps what it has", "1 free now")
	refused := exec.CommandContext(t.Context(), s.program, "kernels", "switch", "gpu", "4g.71gb")
	refused.Env = append(os.Environ(), "SLIPWAY_URL="+s.url, "SLIPWAY_TOKEN=token-of-alice")
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "one of 1g.18gb, 3g.71gb, 7g.141gb, or default") {
		t.Errorf("a slice that is not offered: %v, %s", err, out)
	}
	on(usual, "1g.18gb")
	_, large := j.kernel(s, "slice")
	on(large, "3g.71gb")

	switched("7g.141gb", "7g.141gb asked, 0 of 1 free")
	waited := make(chan reply, 1)
	go func() { waited <- s.call("alice", http.MethodPost, "/kernels/api/kernels", `{"name": "slice"}`) }()
	s.eventually("she is told for what it waits", func() bool {
		return strings.Contains(string(s.call("alice", http.MethodGet, "/kernels/api/kernels", nil).body), "Waiting for room, next in line: 7g.141gb asked")
	})
	for _, w := range s.list("alice", "sessions") {
		if w["phase"] == "running" {
			s.asAlice("kernels", "stop", w["id"].(string))
		}
	}
	whole := (<-waited).object(t)
	if whole["execution_state"] != "idle" {
		t.Errorf("when there is room it is %v", whole)
	}
	on(j.open(whole["id"].(string)), "7g.141gb")
	s.asAlice("kernels", "stop", "--all")
	switched("default", "your next kernels of slice have 1g.18gb", "as usual")
	_, again := j.kernel(s, "slice")
	on(again, "1g.18gb")
	s.asAlice("kernels", "stop", "--all")
}
