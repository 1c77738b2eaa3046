package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// site is a whole Slipway as a site runs it: the built binary with the real Docker Engine and the real Apptainer,
// beside a stand-in for the Hub that knows a token for each user.
type site struct {
	t       testing.TB
	dir     string
	program string
	url     string
	client  *http.Client // who trusts it; nil: anybody
	hub     *httptest.Server
	process *exec.Cmd
	dead    chan struct{} // closed when the process has ended
	log     *os.File
	flags   []string // of the service, beside the usual ones
}

const spawnerToken = "spawner-token-of-the-end-to-end-tests"

// newSite starts one; more are lines of its configuration, of which the first may be profiles beside the usual one.
func newSite(t testing.TB, more ...string) *site {
	testenv.Need(t, testenv.Root, testenv.Docker, testenv.Notebook, testenv.Apptainer)
	program, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: t.TempDir(), program: program}
	if err := os.Chmod(s.dir, 0o711); err != nil {
		t.Fatal(err)
	}
	for parent := filepath.Dir(s.dir); parent != "/tmp" && parent != "/"; parent = filepath.Dir(parent) {
		_ = os.Chmod(parent, 0o711) // jobs run as other users and need the way to their files
	}
	s.hub = httptest.NewServer(http.HandlerFunc(fakeHub))
	t.Cleanup(s.hub.Close)
	s.configure(more)
	t.Cleanup(s.kill) // also when clear gives up
	s.haveBases(1)
	s.serve()
	t.Cleanup(s.clear)
	return s
}

// fakeHub answers token introspection: the token of user NAME is "token-of-NAME".
func fakeHub(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "token token-of-")
	if r.URL.Path != "/hub/api/user" || !ok {
		http.Error(w, `{"status": 403, "message": "Forbidden"}`, http.StatusForbidden)
		return
	}
	scopes := []string{"access:services!service=slipway"}
	if name == "unscoped" {
		scopes = nil
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "user", "name": name, "admin": false, "scopes": scopes})
}

func (s *site) configure(more []string) {
	address := fmt.Sprintf("127.0.0.1:%d", testenv.FreePorts(s.t, 1)[0])
	instance := testenv.Instance("e2e", s.dir)
	testenv.DropInstance(s.t, instance)
	s.url = "http://" + address
	s.write("spawner.token", spawnerToken)
	s.write("slipway.yaml", fmt.Sprintf(`
listen: %s
data_dir: %s/data
instance: %[7]q
hubs:
  - {name: main, api_url: %[3]s/hub/api, service: slipway, spawner_token_file: %s/spawner.token, admin_users: [root]}
users: {uids: 20000-20999, gid: 100, homes: %s/homes}
images:
  - {name: notebook, display_name: Notebook, ref: %q}
jobs: {max_cpus: 2, max_memory: 2G, default_cpus: 1, default_memory: 512M, default_time: 5m, max_time: 1h, retry_pause: 100ms}
docker: {max_total_cpus: 2, max_total_memory: 2G}
local: {apptainer: %[8]q, max_jobs: 2}
profiles:
  - {name: small, display_name: Small, kind: lab, images: [notebook], cpus: 0.5, max_cpus: 2, memory: 512M, max_memory: 1G, default: true}
%[9]s
`, address, s.dir, s.hub.URL, s.dir, s.dir, testenv.NotebookImage, instance, testenv.ApptainerPath(), strings.Join(more, "\n")))
}

func (s *site) write(name, text string) {
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// serve starts the service and waits until it is ready.
func (s *site) serve() {
	s.t.Helper()
	s.start()
	said := ""
	defer func() {
		if said != "" {
			s.t.Logf("the service says of itself: %s", said)
		}
	}()
	s.untilUnlessDead("the service is ready", func() bool {
		resp, err := cmp.Or(s.client, http.DefaultClient).Get(s.url + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			said = ""
			return true
		}
		text, _ := io.ReadAll(resp.Body)
		said = string(text)
		return false
	})
}

// start starts the service.
func (s *site) start() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "serve.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	s.process = exec.Command(s.program, append([]string{"serve", "--verbose", "--config", filepath.Join(s.dir, "slipway.yaml")}, s.flags...)...)
	s.process.Stdout, s.process.Stderr = log, log
	s.log = log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.dead = make(chan struct{})
	go func(c *exec.Cmd, dead chan struct{}) { _ = c.Wait(); close(dead) }(s.process, s.dead) // how it ended is in its log
}

// untilUnlessDead waits for something that the service does, and fails as soon as it has ended.
func (s *site) untilUnlessDead(what string, ok func() bool) {
	s.t.Helper()
	testenv.UntilUnlessDead(s.t, what, testenv.Hang, s.dead, s.log.Name(), ok)
}

// kill ends the service as kill -9 does.
func (s *site) kill() {
	s.t.Helper()
	if !s.serves() {
		return
	}
	_ = s.process.Process.Kill() // an error when it has just ended
	<-s.dead
	s.log.Close()
}

// serves reports whether the service's process is there.
func (s *site) serves() bool {
	if s.process == nil {
		return false
	}
	select {
	case <-s.dead:
		return false
	default:
		return true
	}
}

// end has the service end by itself, which unmounts the images that its jobs have shared.
func (s *site) end() {
	s.t.Helper()
	if !s.serves() {
		return
	}
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	late := time.AfterFunc(testenv.Hang, func() { _ = s.process.Process.Kill() })
	defer late.Stop()
	<-s.dead // how a service ends is another test's
	s.log.Close()
}

// clear discards everything and fails the test when something is left.
func (s *site) clear() {
	testenv.ShowLog(s.t, "the service's log", filepath.Join(s.dir, "serve.log"))
	s.discard()
	s.end()
	if left := s.mounts(); len(left) > 0 {
		s.t.Errorf("mounts are left: %s", left)
	}
	left, _ := os.ReadDir(filepath.Join(s.dir, "data", "workloads"))
	if len(left) > 0 {
		s.t.Errorf("workload directories are left: %v", left)
	}
}

// discard has the service discard all sessions and jobs.
func (s *site) discard() {
	for _, job := range s.list("root", "jobs") {
		s.call("root", http.MethodPost, "/api/v1/jobs/"+job["id"].(string)+"/cancel", nil)
	}
	s.eventually("everything is discarded", func() bool {
		left := 0
		for _, kind := range []string{"sessions", "jobs"} {
			for _, w := range s.list("root", kind) {
				left++
				s.call("root", http.MethodDelete, "/api/v1/"+kind+"/"+w["id"].(string), nil)
			}
		}
		return left == 0
	})
}

// mounts returns those below the site's directory, but for the one from which storage propagates to sessions: it stays.
func (s *site) mounts() []string {
	info, _ := os.ReadFile("/proc/self/mountinfo")
	var out []string
	for line := range strings.Lines(string(info)) {
		if strings.Contains(line, s.dir) && strings.Fields(line)[4] != filepath.Join(s.dir, "data/storage") {
			out = append(out, line)
		}
	}
	return out
}

// reportTo has the site report to a subtest until that ends: what gives up ends that one, and none that runs elsewhere.
func (s *site) reportTo(t testing.TB) {
	all := s.t
	t.Cleanup(func() { s.t = all })
	s.t = t
}

// eventually waits until something is so. It fails at once when the service, which served, has ended.
func (s *site) eventually(what string, ok func() bool) {
	s.t.Helper()
	if !s.serves() {
		testenv.Until(s.t, what, testenv.Hang, ok)
		return
	}
	testenv.UntilUnlessDead(s.t, what, testenv.Hang, s.dead, s.log.Name(), ok)
}

// reply is an HTTP answer.
type reply struct {
	status int
	body   []byte
}

func (r reply) object(t testing.TB) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(r.body, &o); err != nil {
		t.Fatalf("status %d, not an object: %s", r.status, r.body)
	}
	return o
}

// call sends a request as a user; as the Hub's Spawner when user is "hub"; without any token when it is empty.
func (s *site) call(user, method, path string, body any) reply {
	s.t.Helper()
	var r io.Reader
	if text, ok := body.(string); ok {
		r = strings.NewReader(text)
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, s.url+path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	switch user {
	case "":
	case "hub":
		req.Header.Set("Authorization", "Bearer "+spawnerToken)
	default:
		req.Header.Set("Authorization", "Bearer token-of-"+user)
	}
	resp, err := cmp.Or(s.client, http.DefaultClient).Do(req)
	if err != nil {
		return reply{status: 0, body: []byte(err.Error())}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{status: 0, body: []byte(err.Error())}
	}
	return reply{resp.StatusCode, b}
}

func (s *site) list(user, kind string) []map[string]any {
	var o map[string][]map[string]any
	_ = json.Unmarshal(s.call(user, http.MethodGet, "/api/v1/"+kind, nil).body, &o)
	return o[kind]
}

// ask sends the Hub's request for a session.
func (s *site) ask(user, launch string) reply { return s.askWith(user, launch, map[string]any{}) }

// askWith is ask, with a user's options.
func (s *site) askWith(user, launch string, options map[string]any) reply {
	app, err := os.ReadFile("testdata/app.py")
	if err != nil {
		s.t.Fatal(err)
	}
	prefix := "/user/" + user + "/"
	return s.call("hub", http.MethodPost, "/api/v1/sessions", map[string]any{
		"user": user, "server_name": "", "options": options, "launch": launch, "prefix": prefix,
		"argv": []string{"python3", "-c", string(app)},
		"env": map[string]string{
			"JUPYTERHUB_API_TOKEN": "secret-of-" + user, "JUPYTERHUB_SERVICE_PREFIX": prefix,
			"JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:8888" + prefix, "JUPYTERHUB_API_URL": s.hub.URL + "/hub/api",
		},
	})
}

// session starts a session of user and gives its id once it answers.
func (s *site) session(user, launch string) string {
	s.t.Helper()
	r := s.ask(user, launch)
	if r.status != http.StatusAccepted {
		s.t.Fatalf("start: %d %s", r.status, r.body)
	}
	id := r.object(s.t)["id"].(string)
	s.running(id)
	return id
}

// running waits until a session answers.
func (s *site) running(id string) {
	s.t.Helper()
	s.eventually(id+" runs", func() bool {
		phase := s.phase("root", "sessions", id)
		if phase == "stopped" {
			s.t.Fatalf("the start failed: %s", s.call("root", http.MethodGet, "/api/v1/sessions/"+id, nil).body)
		}
		return phase == "running"
	})
}

func (s *site) phase(user, kind, id string) string {
	r := s.call(user, http.MethodGet, "/api/v1/"+kind+"/"+id, nil)
	var o struct{ Phase string }
	_ = json.Unmarshal(r.body, &o)
	return o.Phase
}

// in runs a shell command in the session of user, through the session proxy.
func (s *site) in(user, command string) string {
	s.t.Helper()
	r := s.call("", http.MethodPost, "/user/"+user+"/run", command)
	if r.status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", command, r.status, r.body)
	}
	o := r.object(s.t)
	if o["code"].(float64) != 0 {
		s.t.Fatalf("%s: exit code %v: %s%s", command, o["code"], o["out"], o["err"])
	}
	return strings.TrimSpace(o["out"].(string))
}

// freeze freezes a session and gives the environment, or the error of the stream.
func (s *site) freeze(user, id string) (environment map[string]any, failure string) {
	s.t.Helper()
	r := s.call(user, http.MethodPost, "/api/v1/sessions/"+id+"/freeze", map[string]any{})
	if r.status != http.StatusOK {
		return nil, string(r.body)
	}
	event := ""
	lines := bufio.NewScanner(bytes.NewReader(r.body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case ok && event == "done":
			_ = json.Unmarshal([]byte(data), &environment)
			return environment, ""
		case ok && event == "error":
			return nil, data
		}
	}
	return nil, "the stream broke off"
}
