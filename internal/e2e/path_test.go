package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// TestThePath walks the whole path of the service: session, change, freeze, job in the frozen environment, result; stop
// and start.
func TestThePath(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.session("alice", "one")
	s.in("alice", "echo 'print(\"from the change\")' > /opt/env/bin/mine.py && echo kept > $HOME/note")
	if who := s.in("alice", "id -u; id -g; whoami; pwd; umask"); who != "20000\n100\nalice\n/home/alice\n0022" {
		t.Errorf("the session runs as\n%s", who)
	}
	listed := s.in("alice", "slipway sessions --json")
	if !strings.Contains(listed, id) {
		t.Errorf("inside, without a token: %s", listed)
	}
	out := s.in("alice", "cd /tmp && echo 'import subprocess, sys; print(sys.argv[1:]); subprocess.run([\"python3\", \"/opt/env/bin/mine.py\"]); print(open(\"/home/alice/note\").read())' > job.py && slipway submit --name first job.py -- a 'b c'")
	for _, want := range []string{"['a', 'b c']", "from the change", "kept"} {
		if !strings.Contains(out, want) {
			t.Errorf("the job's output lacks %q:\n%s", want, out)
		}
	}
	again, failure := s.freeze("alice", id)
	if failure != "" || again["unchanged"] != true {
		t.Errorf("frozen again: %v %s", again, failure)
	}
	if envs := s.list("alice", "environments"); len(envs) != 1 {
		t.Errorf("environments: %v", envs)
	}
	s.scan("alice", again["digest"].(string))
	if stopped := s.call("hub", http.MethodPost, "/api/v1/sessions/"+id+"/stop", nil); stopped.status != http.StatusOK {
		t.Errorf("stop: %d %s", stopped.status, stopped.body)
	}
	if second := s.session("alice", "two"); second != id {
		t.Errorf("started again as %s, want %s", second, id)
	}
	if got := s.in("alice", "python3 /opt/env/bin/mine.py"); got != "from the change" {
		t.Errorf("after stop and start: %q", got)
	}
}

func TestNoSecretShows(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.session("alice", "one")
	if facts := s.call("", http.MethodGet, "/user/alice/api", nil); !strings.Contains(string(facts.body), "secret-of-alice") {
		t.Fatalf("the app did not get its secret: %s", facts.body)
	}
	environment, failure := s.freeze("alice", id)
	if failure != "" {
		t.Fatal(failure)
	}
	inspected, err := exec.Command("docker", "inspect", "slipway-"+id).Output()
	if err != nil {
		t.Fatal(err)
	}
	manifest, _ := json.Marshal(environment)
	log, _ := os.ReadFile(filepath.Join(s.dir, "serve.log"))
	places := map[string]string{"docker inspect": string(inspected), "the environment": string(manifest), "the log": string(log)}
	_ = filepath.WalkDir(filepath.Join(s.dir, "data"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(path) != ".sif" && filepath.Ext(path) != ".sqfs" {
			b, _ := os.ReadFile(path)
			places[path] = string(b)
		}
		return nil
	})
	for place, text := range places {
		for _, secret := range []string{"secret-of-alice", spawnerToken} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q", place, secret)
			}
		}
	}
}

// TestKilledWhileStarting kills the service at several moments of a start. The Hub repeats its request: one container,
// one app.
func TestKilledWhileStarting(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, delay := range testenv.Some(0, 50*time.Millisecond, 150*time.Millisecond, 300*time.Millisecond, 600*time.Millisecond) {
		user := fmt.Sprintf("u%d", delay.Milliseconds())
		first := s.ask(user, "one")
		<-time.After(delay)
		s.kill()
		s.serve()
		second := s.ask(user, "one")
		if second.status != http.StatusAccepted {
			t.Fatalf("after %s: %d %s", delay, second.status, second.body)
		}
		id := second.object(t)["id"].(string)
		if was := first.object(t)["id"]; was != id {
			t.Errorf("after %s: %s became %s", delay, was, id)
		}
		s.running(id)
		if got := s.in(user, "echo here"); got != "here" {
			t.Errorf("after %s: %q", delay, got)
		}
		if n := containers(t, id); n != 1 {
			t.Errorf("after %s: %d containers", delay, n)
		}
		s.call(user, http.MethodDelete, "/api/v1/sessions/"+id, nil)
	}
}

func containers(t *testing.T, id string) int {
	t.Helper()
	out, err := exec.Command("docker", "ps", "-aq", "--filter", "label=slipway.id="+id).Output()
	if err != nil {
		t.Fatal(err)
	}
	return len(strings.Fields(string(out)))
}

// TestKilledWhileRunning kills the service beside a running session: the same process answers afterwards.
func TestKilledWhileRunning(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.session("alice", "one")
	before := s.call("", http.MethodGet, "/user/alice/api", nil).object(t)["pid"]
	s.kill()
	s.serve()
	s.eventually("the session answers again", func() bool {
		return s.call("", http.MethodGet, "/user/alice/api", nil).status == http.StatusOK
	})
	if after := s.call("", http.MethodGet, "/user/alice/api", nil).object(t)["pid"]; after != before {
		t.Errorf("the app was process %v and is %v", before, after)
	}
	if got := s.phase("alice", "sessions", id); got != "running" {
		t.Errorf("the session is %s", got)
	}
}

// submit submits a shell script as a job of user.
func (s *site) submit(user, environment, script string, more map[string]any) string {
	s.t.Helper()
	body := map[string]any{"name": "e2e", "environment": environment, "argv": []string{"sh", "-c", script}}
	for k, v := range more {
		body[k] = v
	}
	r := s.call(user, http.MethodPost, "/api/v1/jobs", body)
	if r.status != http.StatusAccepted {
		s.t.Fatalf("submit: %d %s", r.status, r.body)
	}
	return r.object(s.t)["id"].(string)
}

func (s *site) ended(user, id string) map[string]any {
	s.t.Helper()
	s.eventually(id+" has ended", func() bool { return s.phase(user, "jobs", id) == "stopped" })
	return s.call(user, http.MethodGet, "/api/v1/jobs/"+id, nil).object(s.t)
}

// TestJobs covers a job's ends: the service killed meanwhile, its limit reached, out of memory, an exit code, a cancel,
// and that it is in another world than the session.
func TestJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.session("alice", "one")
	s.in("alice", "echo x > /opt/env/marker")
	frozen, failure := s.freeze("alice", id)
	if failure != "" {
		t.Fatal(failure)
	}
	digest := frozen["digest"].(string)

	slow := s.submit("alice", digest, "cat /opt/env/marker; echo one; while ! [ -e ~/go ]; do sleep 0.1; done; echo two; hostname; id -u; echo 42 > answer; touch ~/gone; exit 3", nil)
	s.eventually("it runs", func() bool { return s.phase("alice", "jobs", slow) == "running" })
	s.kill()
	home := filepath.Join(s.dir, "homes", "alice")
	if err := os.WriteFile(filepath.Join(home, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.eventually("it has ended without the service", func() bool { _, err := os.Stat(filepath.Join(home, "gone")); return err == nil })
	s.serve()
	job := s.ended("alice", slow)
	outcome, _ := job["outcome"].(map[string]any)
	if job["state"] != "failed" || outcome["exit_code"] != 3.0 {
		t.Errorf("a job through a restart: %v", job)
	}
	log := string(s.call("alice", http.MethodGet, "/api/v1/jobs/"+slow+"/log", nil).body)
	if !strings.HasPrefix(log, "x\none\ntwo\n") || !strings.HasSuffix(log, "\n20000\n") || strings.Count(log, "one") != 1 {
		t.Errorf("its log: %q", log)
	}
	if answer := s.call("alice", http.MethodGet, "/api/v1/jobs/"+slow+"/files/answer", nil); string(answer.body) != "42\n" {
		t.Errorf("its file: %d %q", answer.status, answer.body)
	}

	late := s.submit("alice", digest, "trap '' TERM; echo on; while true; do sleep 1; done", map[string]any{"time_limit": "2s"})
	fat := s.submit("alice", digest, "python3 -c 'x = bytearray(900_000_000); print(len(x))'", map[string]any{"memory": "300M"})
	if text := fmt.Sprint(s.ended("alice", fat)["outcome"]); !strings.Contains(text, "memory") {
		t.Errorf("a job that needs more memory than it asked for: %s", text)
	}
	endless := s.submit("alice", digest, "sleep 1000", nil)
	s.eventually("it runs", func() bool { return s.phase("alice", "jobs", endless) == "running" })
	s.call("alice", http.MethodPost, "/api/v1/jobs/"+endless+"/cancel", nil)
	if job := s.ended("alice", endless); job["state"] != "canceled" {
		t.Errorf("a canceled job is %v", job["state"])
	}
	if text := fmt.Sprint(s.ended("alice", late)["outcome"]); !strings.Contains(text, "time limit") {
		t.Errorf("a job that outlives its limit: %s", text)
	}
}

// TestStrangersByEveryRoute lets another user and nobody try alice's session, environment and job by the routes of the
// API.
func TestStrangersByEveryRoute(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.session("alice", "one")
	frozen, failure := s.freeze("alice", id)
	if failure != "" {
		t.Fatal(failure)
	}
	digest := frozen["digest"].(string)
	job := s.submit("alice", digest, "sleep 60", nil)
	routes := []struct{ method, path string }{
		{"GET", "/sessions/" + id}, {"GET", "/sessions/" + id + "/log"}, {"GET", "/sessions/" + id + "/events"}, {"GET", "/sessions/" + id + "/wait"},
		{"POST", "/sessions/" + id + "/stop"}, {"POST", "/sessions/" + id + "/freeze"}, {"DELETE", "/sessions/" + id},
		{"GET", "/environments/" + digest}, {"GET", "/environments/" + strings.TrimPrefix(digest, "sha256:")[:8]},
		{"GET", "/jobs/" + job}, {"GET", "/jobs/" + job + "/log"}, {"GET", "/jobs/" + job + "/events"}, {"GET", "/jobs/" + job + "/files"},
		{"GET", "/jobs/" + job + "/files/answer"}, {"POST", "/jobs/" + job + "/cancel"}, {"DELETE", "/jobs/" + job},
	}
	for _, r := range routes {
		for user, want := range map[string]int{"mallory": 404, "Alice": 404, "": 401, "unscoped": 403} {
			if got := s.call(user, r.method, "/api/v1"+r.path, map[string]any{}); got.status != want {
				t.Errorf("%s %s as %q: %d, want %d: %s", r.method, r.path, user, got.status, want, got.body)
			}
		}
	}
	if got := s.call("mallory", "POST", "/api/v1/jobs", map[string]any{"name": "x", "environment": digest, "argv": []string{"true"}}); got.status != 404 {
		t.Errorf("a job in alice's environment: %d %s", got.status, got.body)
	}
	if got := s.call("mallory", "POST", "/api/v1/sessions", map[string]any{"user": "alice", "launch": "x", "prefix": "/user/alice/", "argv": []string{"x"}, "options": map[string]any{}, "env": map[string]any{}}); got.status != 403 {
		t.Errorf("a user starts another's session: %d %s", got.status, got.body)
	}
	if s.phase("alice", "sessions", id) != "running" || s.phase("alice", "jobs", job) == "stopped" {
		t.Error("a stranger ended something")
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	options := func(o map[string]any) map[string]any {
		return map[string]any{"user": "alice", "server_name": "", "options": o, "launch": "x", "prefix": "/user/alice/", "argv": []string{"x"}, "env": map[string]string{}}
	}
	tests := []struct {
		name string
		body any
		want []string // in the error
	}{
		{"unknown profile", options(map[string]any{"profile": "huge"}), []string{"profile", "huge", "small"}},
		{"unknown image", options(map[string]any{"image": "windows"}), []string{"image", "windows", "notebook"}},
		{"neither yes nor no", options(map[string]any{"fresh": "perhaps"}), []string{"fresh", "perhaps", "yes or no"}},
		{"unknown option", options(map[string]any{"gpus": 4}), []string{"gpus"}},
		{"CPUs beyond policy", options(map[string]any{"cpus": "64"}), []string{"cpus", "64", "2"}},
		{"memory beyond policy", options(map[string]any{"memory": "1T"}), []string{"memory", "1 TiB"}},
		{"not JSON", "{", []string{"JSON"}},
		{"an unknown field", map[string]any{"nonsense": 1}, []string{"nonsense"}},
		{"a wrong type", map[string]any{"user": 7}, []string{"user"}},
	}
	for _, tt := range tests {
		got := s.call("hub", http.MethodPost, "/api/v1/sessions", tt.body)
		if got.status < 400 || got.status >= 500 {
			t.Errorf("%s: status %d: %s", tt.name, got.status, got.body)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(got.body), want) {
				t.Errorf("%s: %s does not name %q", tt.name, got.body, want)
			}
		}
	}
	if list := s.list("root", "sessions"); len(list) > 0 {
		t.Errorf("half-done: %v", list)
	}
	for _, user := range []string{"has@", "user--foo", "Alice", "a.b", "физик", strings.Repeat("u", 200)} {
		id := s.session(user, "one")
		s.call("hub", http.MethodDelete, "/api/v1/sessions/"+id, nil)
	}
	homes, _ := os.ReadDir(filepath.Join(s.dir, "homes"))
	if len(homes) < 6 {
		t.Errorf("%d homes for 6 users", len(homes))
	}
}
