package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
)

// TestFullDiskOfTheService: who submits is told, what runs comes to its end once there is room again, and nothing is
// half-done.
func TestFullDiskOfTheService(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.onSmallDisk(func(data string) error { return unix.Mount("tmpfs", data, "tmpfs", 0, "size=256m,mode=700") })
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

// TestKilledOnAFullDisk kills the service on a disk that is full to its last byte. Out of its reserve it starts again,
// says what is the matter and stops what runs; it takes nothing new until there is room. When the reserve is filled
// too, it ends and says why.
func TestKilledOnAFullDisk(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Loop)
	s := newSite(t)
	s.onSmallDisk(s.mountExt4)
	one, other := s.session("alice", "one"), s.session("bob", "one")
	frozen, failure := s.freeze("alice", one)
	if failure != "" {
		t.Fatal(failure)
	}
	digest := frozen["digest"].(string)
	job := s.submit("alice", digest, "sleep 1000", nil)
	s.eventually("it runs", func() bool { return s.phase("alice", "jobs", job) == "running" })
	app := func(user string) any { return s.call("", http.MethodGet, "/user/"+user+"/api", nil).object(t)["pid"] }
	before := app("bob")

	s.kill()
	filler := s.fill()
	if _, err := os.Stat(filepath.Join(s.dir, "data/reserve")); err != nil {
		t.Fatal("the service kept no reserve: ", err)
	}
	s.start()
	ready := func() string { return string(s.call("", http.MethodGet, "/readyz", nil).body) }
	const full = "disk: disk full: "
	s.untilUnlessDead("the service says that its disk is full, and that alone", func() bool {
		text := ready()
		return strings.HasPrefix(text, "not ready\n"+full) && strings.Count(text, "\n") == 2
	})
	if text := ready(); !strings.Contains(text, "free at least ") || !strings.Contains(text, s.dir+"/data") {
		t.Errorf("/readyz has no remedy: %s", text)
	}
	for what, r := range map[string]reply{
		"a session": s.ask("carol", "one"),
		"a job":     s.call("alice", http.MethodPost, "/api/v1/jobs", map[string]any{"name": "late", "environment": digest, "argv": []string{"true"}}),
		"a blob":    s.call("alice", http.MethodPut, "/api/v1/blobs/sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", "x"),
	} {
		if text := string(r.body); r.status != http.StatusInsufficientStorage || !strings.Contains(text, "disk full") || !strings.Contains(text, "free at least ") {
			t.Errorf("%s on a full disk: %d %s", what, r.status, text)
		}
	}
	s.answersAlice()
	if stopped := s.call("hub", http.MethodPost, "/api/v1/sessions/"+one+"/stop", nil); stopped.status != http.StatusOK {
		t.Errorf("stop a session: %d %s", stopped.status, stopped.body)
	}
	if canceled := s.call("alice", http.MethodPost, "/api/v1/jobs/"+job+"/cancel", nil); canceled.status >= 300 {
		t.Errorf("cancel a job: %d %s", canceled.status, canceled.body)
	}
	s.eventually("the session is stopped", func() bool { return s.phase("alice", "sessions", one) == "stopped" })
	if ended := s.ended("alice", job); ended["state"] != "canceled" {
		t.Errorf("the job is %v", ended["state"])
	}

	s.end()
	s.fill() // also what the reserve and the store's log had
	s.start()
	testenv.Until(t, "the service has ended, without a reserve", testenv.Hang, func() bool { return !s.serves() })
	s.logged("slipway: disk full: 0 B free in "+s.dir+"/data: open the store", "-> free at least ")

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.eventually("the service is ready", func() bool { return ready() == "ready\n" })
	if again := s.session("alice", "two"); again != one {
		t.Errorf("started again as %s, want %s", again, one)
	}
	if after := app("bob"); after != before || s.phase("bob", "sessions", other) != "running" {
		t.Errorf("bob's app was process %v and is %v", before, after)
	}
	if ended := s.ended("alice", s.submit("alice", digest, "echo 42", nil)); ended["state"] != "done" {
		t.Errorf("a job with room again: %v", ended)
	}
}

// mountExt4 mounts a small disk of the kind that a site has.
func (s *site) mountExt4(at string) error {
	image := filepath.Join(s.dir, "disk")
	for _, argv := range [][]string{
		{"truncate", "--size=320M", image}, {"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, at},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w: %s", argv, err, out)
		}
	}
	return nil
}

// onSmallDisk starts the service anew with a disk of its own, of which the programs take half, for all but the
// environments.
func (s *site) onSmallDisk(mount func(at string) error) {
	s.t.Helper()
	s.kill()
	data, environments := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "environments")
	for _, step := range []func() error{
		func() error { return os.Rename(filepath.Join(data, "environments"), environments) },
		func() error { return mount(data) },
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
