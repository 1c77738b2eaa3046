package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/images/registry/registrytest"
)

// TestEnvironmentsElsewhere follows an environment out of the built service and back: into stores and a published
// directory, also when the service is killed on the way; to another host with a job's credential; and back when the
// image here is damaged.
func TestEnvironmentsElsewhere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.kill()
	s.elsewhere()
	s.serve()
	s.session("alice", "one")
	digest := strings.TrimSpace(s.in("alice", "echo mine > /opt/env/marker && slipway freeze --name ana --tag v1 2>/dev/null"))
	s.kill()
	s.serve()
	s.eventually("two copies", func() bool {
		out, _ := s.outside("alice", "envs", "show", "ana:v1")
		out = strings.Join(strings.Fields(out), " ")
		return strings.Contains(out, "copy in vault since") && strings.Contains(out, "copy in second since")
	})
	s.says("alice", []string{"envs", "share", "ana:v1", "--with", "public"})
	link := filepath.Join(s.dir, "export", "alice", "ana", "v1.sif")
	s.eventually("it is published, and said to be", func() bool {
		out, _ := s.outside("alice", "envs", "show", "ana:v1")
		_, err := os.Stat(link)
		return err == nil && strings.Contains(out, "cvmfs: alice/ana:v1")
	})
	s.readElsewhere(digest)
	s.says("alice", []string{"envs", "share", "ana:v1", "--with", "private"})
	s.eventually("it is withdrawn", func() bool { _, err := os.Lstat(link); return err != nil })

	s.kill()
	blob := filepath.Join(s.dir, "data", "environments", "blobs", strings.TrimPrefix(digest, "sha256:")+".sif")
	if err := os.Truncate(blob, 1<<20); err != nil {
		t.Fatal(err)
	}
	s.serve()
	if got := s.ended("alice", s.submit("alice", digest, "cat /opt/env/marker", nil)); got["state"] != "done" {
		t.Errorf("a job in what came back: %v", got)
	}
	s.logged("an environment came back from the stores")
}

// elsewhere configures two stores and an export.
func (s *site) elsewhere() {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "slipway.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"vault", "second", "export"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	s.write("slipway.yaml", string(text)+fmt.Sprintf(`
environments:
  stores: [{name: vault, directory: %s/vault}, {name: second, directory: %s/second}]
  exports: [{name: cvmfs, directory: %s/export}]
`, s.dir, s.dir, s.dir))
}

// readElsewhere runs a job's environment with Apptainer and nothing but the job's credential, while the job is active.
func (s *site) readElsewhere(digest string) {
	s.t.Helper()
	job := s.submit("alice", digest, "slipway envs credential | head -c 3; sleep 300", nil)
	s.eventually("the job has its credential", func() bool {
		return string(s.call("alice", http.MethodGet, "/api/v1/jobs/"+job+"/log", nil).body) == "eyJ" // a token's header
	})
	login := filepath.Join(s.dir, "login.json")
	if out, code := s.outside("bob", "envs", "credential", "--of", job, "--authfile", login); code != 1 {
		s.t.Errorf("bob gets alice's: %d %s", code, out)
	}
	lines := strings.Split(strings.TrimSpace(s.says("alice", []string{"envs", "credential", "--of", job, "--authfile", login}, "--no-https")), "\n")
	argv := []string{"--no-https", "--authfile", login, lines[len(lines)-1], "cat", "/opt/env/marker"}
	if out := registrytest.Apptainer(s.t, s.t.TempDir(), nil, "exec", argv...); out != "mine\n" {
		s.t.Errorf("it says %q", out)
	}
	s.call("alice", http.MethodPost, "/api/v1/jobs/"+job+"/cancel", nil)
	s.ended("alice", job)
	if out, err := registrytest.TryApptainer(s.t, s.t.TempDir(), nil, "exec", argv...); err == nil {
		s.t.Errorf("of a job that has ended: %q", out)
	}
	if out, code := s.outside("alice", "envs", "credential", "--of", job); code != 1 || !strings.Contains(out, "not active") {
		s.t.Errorf("%d %s", code, out)
	}
}
