package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const softwareSite = `
data:
  stacks:
    - {name: lookalike, display_name: A stack, setup: /home/alice/setup.sh, python: python3, language: python}
kernels:
  max_per_user: 2
  specs:
    - {name: python, profile: small}
    - {name: own, profile: small, environments: own}
    - {name: view, profile: small, stack: lookalike}
`

// kernel starts a kernel of a kernelspec and opens it.
func (j *jupyter) kernel(s *site, spec string) (id string, n *openKernel) {
	j.Helper()
	r := s.call("alice", http.MethodPost, "/kernels/api/kernels", map[string]string{"name": spec})
	if r.status != http.StatusCreated {
		j.Fatalf("%s: %d %s", spec, r.status, r.body)
	}
	id = r.object(j.T)["id"].(string)
	return id, j.open(id)
}

// A kernel runs in an environment of its user's, and in a stack of the site's; its user looks at it, and switches the
// next, from inside.
func TestKernelsOfSoftware(t *testing.T) {
	t.Parallel()
	s := newSite(t, softwareSite)
	j := &jupyter{t, s.url + "/kernels", "token-of-alice"}
	session := s.session("alice", "lab")
	s.in("alice", "echo frozen > /opt/env/word; echo 'export STACK=lookalike' > ~/setup.sh")
	if r := s.call("alice", http.MethodPost, "/api/v1/sessions/"+session+"/freeze", map[string]any{"name": "ana", "tag": "v1"}); !strings.Contains(string(r.body), "event: done") {
		t.Fatalf("freeze: %s", r.body)
	}
	s.call("alice", http.MethodPost, "/api/v1/sessions/"+session+"/stop", nil)
	specs := func() string { return string(s.call("alice", http.MethodGet, "/kernels/api/kernelspecs", nil).body) }
	s.eventually("the environment is a kernelspec", func() bool { return strings.Contains(specs(), `"own.ana.v1"`) })
	if text := specs(); !strings.Contains(text, "Python (ana:v1)") || !strings.Contains(text, "A stack") || !strings.Contains(text, `"/kernels/kernelspecs/view/logo-svg.svg"`) {
		t.Errorf("kernelspecs: %s", text)
	}
	if text := string(s.call("bob", http.MethodGet, "/kernels/api/kernelspecs", nil).body); strings.Contains(text, "ana") {
		t.Errorf("bob's kernelspecs: %s", text)
	}
	if r := s.call("alice", http.MethodGet, "/kernels/kernelspecs/view/logo-svg.svg", nil); r.status != http.StatusOK || !strings.HasPrefix(string(r.body), "<svg") {
		t.Errorf("its logo: %d %.60s", r.status, r.body)
	}
	own, n := j.kernel(s, "own.ana.v1")
	if got := n.prints("print(open('/opt/env/word').read())"); !strings.Contains(got, "frozen") {
		t.Errorf("in her environment: %q", got)
	}
	_, v := j.kernel(s, "view")
	if got := v.prints("import os; print(os.environ.get('STACK'))"); !strings.Contains(got, "lookalike") {
		t.Errorf("in the stack: %q", got)
	}
	if text := specs(); !strings.Contains(text, `"state":"limit"`) {
		t.Errorf("with two kernels of two: %s", text)
	}
	kernelFromInside(t, s, n)
	if text := specs(); !strings.Contains(text, `"switched":{"memory":"1G"}`) {
		t.Errorf("after a switch: %s", text)
	}
	s.kill()
	s.serve()
	if out := s.asAlice("kernels", "stop", own); !strings.Contains(out, "is shut down") {
		t.Errorf("stop: %s", out)
	}
	again, _ := j.kernel(s, "own.ana.v1")
	found := false
	for _, w := range s.list("alice", "sessions") {
		found = found || w["name"] == "own.ana.v1" && w["memory"] == "1G"
	}
	if !found {
		t.Errorf("the next kernel %s has not what it was switched to, after a restart of the service: %v", again, s.list("alice", "sessions"))
	}
	if out := s.asAlice("kernels", "stop", "--all"); strings.Count(out, "is shut down") != 2 {
		t.Errorf("stop --all: %s", out)
	}
	for _, w := range s.list("alice", "sessions") {
		if w["kind"] == "kernel" {
			t.Errorf("is left: %v", w["id"])
		}
	}
}

// asAlice runs the program outside of all sessions.
func (s *site) asAlice(args ...string) string {
	s.t.Helper()
	c := exec.CommandContext(s.t.Context(), s.program, args...)
	c.Env = append(os.Environ(), "SLIPWAY_URL="+s.url, "SLIPWAY_TOKEN=token-of-alice")
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Errorf("%v: %v", args, err)
	}
	return string(out)
}

// kernelFromInside has a kernel's cells look at the kernel, by the program that the agent brings and by the wheel of
// this tree.
func kernelFromInside(t *testing.T, s *site, n *openKernel) {
	t.Helper()
	list := n.prints("import subprocess\nprint(subprocess.run(['/run/slipway/bin/slipway', 'kernels'], capture_output=True, text=True))")
	if !strings.Contains(list, "own.ana.v1") || !strings.Contains(list, "view") {
		t.Errorf("slipway kernels in a kernel: %s", list)
	}
	wheel, err := filepath.Abs("../../notebooks/src")
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(s.dir, "homes/alice/wheel")
	if err := os.CopyFS(home, os.DirFS(wheel)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chmod", "-R", "a+rX", home).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	n.until("execute_reply", n.run("import sys; sys.path.insert(0, 'wheel')\n%load_ext slipway"))
	if got := n.prints("%slipway"); !strings.Contains(got, "kernel   own.ana.v1 (s-") || !strings.Contains(got, "memory   512 MiB") {
		t.Errorf("%%slipway: %q", got)
	}
	if got := n.prints("%slipway switch memory 1G"); !strings.Contains(got, "Your next kernels of own.ana.v1 have 0.5 CPU, 1 GiB") {
		t.Errorf("%%slipway switch: %q", got)
	}
	if got := n.until("error", n.run("%slipway switch gpu whole")); !strings.Contains(got, "which have no GPU") {
		t.Errorf("a slice that there is not: %s", got)
	}
}
