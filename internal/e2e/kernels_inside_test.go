package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// Programs in a session that know only Jupyter find kernels on slices beside those of their own, and use them as those.
func TestKernelsFromASession(t *testing.T) {
	t.Parallel()
	s := newSite(t, kernelSite)
	id := s.session("alice", "l1")
	script, err := os.ReadFile("testdata/inside.py")
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(s.dir, "homes/alice", name) }
	if err := os.WriteFile(at("inside.py"), script, 0o644); err != nil {
		t.Fatal(err)
	}
	there := func(name string) func() bool {
		return func() bool { _, err := os.Stat(at(name)); return err == nil }
	}
	kernels := func() int { return len(s.list("alice", "sessions")) - 1 }
	s.in("alice", "python3 inside.py specs")
	t.Log(s.in("alice", "python3 inside.py conversation"))
	s.in("alice", "python3 inside.py programs")
	s.in("alice", "python3 inside.py server || { tail -30 server.log >&2; exit 1; }")
	s.eventually("what was shut down is gone", func() bool { return kernels() == 0 })

	s.in("alice", "(python3 inside.py over_a_restart >said 2>&1 || touch failed done) </dev/null >/dev/null 2>&1 &")
	s.eventually("the cell prints", there("half"))
	s.kill()
	if err := os.WriteFile(at("on"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.serve()
	s.eventually("the cell has ended", there("done"))
	if there("failed")() {
		said, _ := os.ReadFile(at("said"))
		t.Errorf("over a restart of the service: %s", said)
	}
	if n := kernels(); n != 1 {
		t.Errorf("%d kernels", n)
	}
	// Nobody shuts the kernel down: it ends with the session.
	s.call("hub", "DELETE", "/api/v1/sessions/"+id, nil)
	s.eventually("the kernel ends with its session", func() bool { return len(s.list("alice", "sessions")) == 0 })
}
