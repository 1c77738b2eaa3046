package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullDiskOfTheService: who submits is told, what runs comes to its end once there is room again, and nothing is half-done.
func TestFullDiskOfTheService(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.onSmallDisk()
	frozen, failure := s.freeze("alice", s.session("alice", "one"))
	if failure != "" {
		t.Fatal(failure)
	}
	c := counted{s, frozen["digest"].(string)}
	s.in("alice", "mkdir -p ~/runs")
	const waits = "echo 42 > answer; while ! test -e ~/go; do sleep 0.1; done"
	runs := c.again(t, "runs", waits, nil)
	s.eventually("it runs", func() bool { return c.of("runs")[0] == "run" })
	filler := s.fill()
	refused := c.ask("late", "echo 42 > answer", nil)
	if text := string(refused.body); refused.status != http.StatusInsufficientStorage || !strings.Contains(text, "disk") || !strings.Contains(text, "remedy") {
		t.Errorf("a job on a full disk: %d %s", refused.status, text)
	}
	if all := s.list("alice", "jobs"); len(all) != 1 {
		t.Errorf("%d jobs are listed", len(all))
	}
	logged := func(words string) func() bool {
		return func() bool {
			log, _ := os.ReadFile(filepath.Join(s.dir, "serve.log"))
			return strings.Contains(string(log), words)
		}
	}
	s.eventually("the reserve is given back", logged("its reserve was given back"))
	s.fill()
	if err := os.WriteFile(filepath.Join(s.dir, "homes/alice/go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.eventually("what it has left cannot be fetched", logged("the output of a job cannot be kept now"))
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	c.ranOnce(t, "runs", runs)
	if told := string(s.call("alice", http.MethodGet, "/api/v1/jobs/"+runs+"/events", nil).body); !strings.Contains(told, "The service's disk is full: your files wait on local and are kept") {
		t.Errorf("its owner was not told: %s", told)
	}
	c.ranOnce(t, "late", c.again(t, "late", "echo 42 > answer", nil))
}

// onSmallDisk starts the service anew with a disk of its own, of which the programs take half, for all but the environments.
func (s *site) onSmallDisk() {
	s.t.Helper()
	s.kill()
	data, environments := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "environments")
	for _, step := range []func() error{
		func() error { return os.Rename(filepath.Join(data, "environments"), environments) },
		func() error { return unix.Mount("tmpfs", data, "tmpfs", 0, "size=256m,mode=700") },
		func() error { return os.Mkdir(filepath.Join(data, "environments"), 0o700) },
		func() error {
			return unix.Mount(environments, filepath.Join(data, "environments"), "", unix.MS_BIND, "")
		},
	} {
		if err := step(); err != nil {
			s.t.Fatal(err)
		}
	}
	s.serve()
	s.t.Cleanup(func() { // clear looks for mounts that are left, and finds a service without workloads
		s.discard()
		s.end()
		if out, err := exec.Command("umount", "--recursive", data).CombinedOutput(); err != nil {
			s.t.Errorf("%v: %s", err, out)
		}
		s.serve()
	})
}

// fill lets a file grow until the service's disk is full, and gives its path.
func (s *site) fill() string {
	s.t.Helper()
	path := filepath.Join(s.dir, "data", "filler")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	return path
}
