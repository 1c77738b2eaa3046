package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/internal/testenv/autofs"
)

// TestCVMFS: a site whose repositories autofs mounts on demand, one of which is dead. Sessions and jobs see what lives,
// are told of the other, and wait for nothing; nothing of /cvmfs is in an environment; autofs is started anew under
// them.
func TestCVMFS(t *testing.T) {
	t.Parallel()
	a := autofs.Start(t)
	s := newSite(t, fmt.Sprintf(`data:
  cvmfs: {path: %q, repositories: [%s, %s]}
  stacks:
    - {name: alive, display_name: Alive, setup: /cvmfs/%[2]s/setup.sh}
    - {name: dead, display_name: Dead, setup: /cvmfs/%[3]s/setup.sh}
    - {name: others, display_name: Others, setup: /s, allowed_groups: [higgs]}
groups: {higgs: [bob]}
`, a.Dir, autofs.Repository, autofs.Dead))
	a.AwaitExpiry(autofs.Repository)
	id := s.session("alice", "one")
	hello := "hello from " + autofs.Repository
	read := "timeout 20 cat /cvmfs/" + autofs.Repository + "/hello.txt"
	if got := s.in("alice", read); got != hello {
		t.Errorf("the session read %q", got)
	}
	if events := s.call("root", http.MethodGet, "/api/v1/sessions/"+id+"/events", nil); !strings.Contains(string(events.body), "CVMFS: "+autofs.Dead+" does not answer") {
		t.Errorf("its start did not tell of the dead repository: %s", events.body)
	}
	titles := s.in("alice", "cat /run/slipway/jupyter/kernels/*/kernel.json | grep display_name")
	if !strings.Contains(titles, `"Alive"`) || !strings.Contains(titles, "Dead ("+autofs.Dead+" does not answer)") || strings.Contains(titles, "Others") {
		t.Errorf("the launcher has %s", titles)
	}
	metrics := string(s.call("", http.MethodGet, "/metrics", nil).body)
	for repository, up := range map[string]string{autofs.Repository: "1", autofs.Dead: "0"} {
		if want := `slipway_cvmfs_repository_up{repository="` + repository + `"} ` + up; !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	s.doctorOfCVMFS(a.Dir)

	s.in("alice", "echo changed >/opt/env/mine")
	environment, failure := s.freeze("alice", id)
	if failure != "" {
		t.Fatal(failure)
	}
	s.in("alice", `printf 'print(open("/cvmfs/`+autofs.Repository+`/hello.txt").read())' >/tmp/job.py`)
	if out := s.in("alice", "cd /tmp && slipway submit job.py"); !strings.Contains(out, hello) {
		t.Errorf("the job in %v printed %s", environment["digest"], out)
	}

	a.Down()
	a.Up()
	s.eventually("the session reads what autofs mounts that was started anew", func() bool {
		r := s.call("", http.MethodPost, "/user/alice/run", read)
		return strings.Contains(string(r.body), hello)
	})
	s.endsAtOnce()
	s.serve()
}

// doctorOfCVMFS wants the doctor to tell which repository is dead, and to wait for it no longer than for its deadline.
func (s *site) doctorOfCVMFS(dir string) {
	s.t.Helper()
	out, _ := exec.Command(s.program, "doctor", "--config", filepath.Join(s.dir, "slipway.yaml")).CombinedOutput()
	text := strings.Join(strings.Fields(string(out)), " ")
	for _, want := range []string{"ok CVMFS at " + dir, "ok CVMFS " + autofs.Repository + " answers in ", "warn CVMFS " + autofs.Dead + " it does not answer", "warn stack alive it cannot be used: no such file"} {
		if !strings.Contains(text, want) {
			s.t.Errorf("the doctor does not say %q:\n%s", want, out)
		}
	}
}

// endsAtOnce asks the service to end, and wants it to.
func (s *site) endsAtOnce() {
	s.t.Helper()
	began := time.Now()
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.dead:
		s.t.Logf("the service ended within %v", time.Since(began))
	case <-time.After(testenv.Hang):
		s.t.Error("the service does not end")
		_ = s.process.Process.Kill()
		<-s.dead
	}
	s.log.Close()
}

// TestCVMFSThatWouldNotBeSeen: no service without the mounts that its sessions were promised.
func TestCVMFSThatWouldNotBeSeen(t *testing.T) {
	t.Parallel()
	a := autofs.Start(t)
	a.Run("mount", "--make-private", a.Dir)
	s := newSite(t)
	s.kill()
	s.configure([]string{fmt.Sprintf("data: {cvmfs: {path: %q}}", a.Dir)})
	out, err := exec.Command(s.program, "serve", "--config", filepath.Join(s.dir, "slipway.yaml")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no shared mount") || !strings.Contains(string(out), "`mount --make-rshared "+a.Dir+"`") {
		t.Errorf("serve: %v %s", err, out)
	}
	s.configure(nil)
	s.serve()
}
