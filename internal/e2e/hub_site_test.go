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

	"slipway/internal/hubtest"
	"slipway/internal/testenv"
)

// hubSite is a whole site with a real Hub: program, Hub, proxy, Docker Engine.
type hubSite struct {
	*site
	hub      *hubtest.Hub
	instance string
	tokens   map[string]string // of users, made when first asked for
}

// hubOptions say which.
type hubOptions struct {
	major   int
	spawner string
	cpus    float64 // what sessions may hold together; default 8
	config  string  // more lines of the Hub's configuration
	hubs    string  // more hubs of the service's configuration
	service string  // more keys of it
	users   string  // more of what it says of users, $DIR being the site's directory
	stopped bool    // the Hub is only prepared
}

// hubApps is for every Hub here: what a server runs is chosen by how its user's name begins.
const hubApps = `
app = ["python3", "-c", Path(%q).read_text()]
apps = {
    "slow": ["sh", "-c", 'sleep 3; exec "$@"', "app", *app],
    "stubborn": ["sh", "-c", 'trap "" TERM; exec "$@"', "app", *app],
    "crash": ["sh", "-c", "seq 60; echo the reason of it >&2; exit 7"],
    "real": ["jupyterhub-singleuser"],
}

def choose(spawner):
    spawner.cmd = apps.get(spawner.user.name.split(".")[0], app)

c.Spawner.pre_spawn_hook = choose
c.Spawner.poll_interval = 2
`

func newHubSite(t *testing.T, o hubOptions) *hubSite {
	t.Helper()
	testenv.Need(t, append(hubtest.Parts(o.major), testenv.Root, testenv.Docker, testenv.Notebook, testenv.Apptainer)...)
	program, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "slipway-hub") // not the test's own: a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	s := &hubSite{
		site:     &site{t: t, dir: dir, program: program, url: fmt.Sprintf("http://127.0.0.1:%d", testenv.FreePorts(t, 1)[0])},
		instance: filepath.Base(dir), tokens: map[string]string{},
	}
	app, err := filepath.Abs("testdata/app.py")
	if err != nil {
		t.Fatal(err)
	}
	s.hub = hubtest.Start(t, hubtest.Options{
		Major: o.major, Spawner: o.spawner, ServiceURL: s.url, Config: fmt.Sprintf(hubApps, app) + o.config, Stopped: true,
	})
	s.configure(o)
	t.Cleanup(s.kill)
	t.Cleanup(s.showLog)
	images := 1
	if exec.Command("docker", "image", "inspect", testenv.CodeImage).Run() == nil {
		images = 2
	}
	s.haveBases(images)
	s.serve()
	t.Cleanup(s.clear)
	if !o.stopped {
		s.hub.Restart()
	}
	return s
}

func (s *hubSite) configure(o hubOptions) {
	testenv.DropInstance(s.t, s.instance)
	if o.cpus == 0 {
		o.cpus = 8
	}
	s.write("spawner.token", hubtest.SpawnerToken)
	s.write("service.token", hubtest.ServiceToken)
	s.write("outpost.password", hubtest.OutpostPassword)
	s.write("slipway.yaml", fmt.Sprintf(`
listen: %[1]q
data_dir: %[2]s/data
instance: %[8]q
hubs:
  - name: main
    api_url: %[3]s
    service: slipway
    token_file: %[2]s/service.token
    spawner_token_file: %[2]s/spawner.token
    admin_users: [%[4]s]
    outpost: {credentials: [{username: %[5]s, password_file: %[2]s/outpost.password}]}
    realm: site
%[10]s
users: {uids: 20000-20999, gid: 100, homes: %[2]s/homes%[13]s}
images:
  - {name: notebook, display_name: Notebook, ref: %[6]q}
  - {name: code, display_name: VS Code, ref: %[12]q}
  - {name: absent, display_name: Absent, ref: "slipway/no-such-image:1"}
profiles:
  - {name: small, display_name: Small, kind: lab, images: [notebook], cpus: 0.5, max_cpus: 2, memory: 512M, max_memory: 1G, default: true}
  - {name: whole, display_name: Whole, kind: lab, images: [notebook], cpus: %[7]g, memory: 512M, max_memory: 1G}
  - {name: absent, display_name: Absent, kind: lab, images: [absent], cpus: 0.5, memory: 512M}
%[11]s
docker: {max_total_cpus: %[7]g, max_total_memory: 8G}
local: {apptainer: %[9]q, max_jobs: 2}
`, strings.TrimPrefix(s.url, "http://"), s.dir, s.hub.APIURL, hubtest.Admin, hubtest.OutpostUser, testenv.NotebookImage,
		o.cpus, s.instance, testenv.ApptainerPath(), strings.ReplaceAll(o.hubs, "$DIR", s.dir), o.service, testenv.CodeImage, strings.ReplaceAll(o.users, "$DIR", s.dir)))
}

// as asks the service's API as a user of the Hub, with a token that the Hub has made.
func (s *hubSite) as(user, method, path string, body any) reply {
	s.t.Helper()
	r := hubtest.Ask(s.t, s.token(user), method, s.url+"/api/v1"+path, body)
	return reply{r.Status, r.Body}
}

func (s *hubSite) token(user string) string {
	s.t.Helper()
	if s.tokens[user] == "" {
		s.tokens[user] = s.hub.Token(user)
	}
	return s.tokens[user]
}

// hubSession is what these tests look at in the service's record of a session.
type hubSession struct {
	ID, User, Name, Phase, Want, Profile string
	Waiting                              string
}

// sessions returns all that the service knows.
func (s *hubSite) sessions() []hubSession {
	s.t.Helper()
	var o struct{ Sessions []hubSession }
	r := s.as(hubtest.Admin, http.MethodGet, "/sessions", nil)
	if err := json.Unmarshal(r.body, &o); err != nil {
		s.t.Fatalf("list sessions: %d %s", r.status, r.body)
	}
	return o.Sessions
}

// sessionOf returns the service's record of a server.
func (s *hubSite) sessionOf(user, name string) hubSession {
	s.t.Helper()
	for _, w := range s.sessions() {
		if w.User == user && w.Name == name {
			return w
		}
	}
	return hubSession{}
}

// start starts a server and waits until it answers through the Hub's proxy.
func (s *hubSite) start(user, name string, options any) map[string]any {
	s.t.Helper()
	s.startOnly(user, name, options)
	return s.answers(user, name)
}

// startOnly has the Hub start a server.
func (s *hubSite) startOnly(user, name string, options any) {
	s.t.Helper()
	if r := s.hub.StartServer(user, name, options); r.Status != http.StatusAccepted && r.Status != http.StatusCreated {
		s.t.Fatalf("start server %q of %s: %s", name, user, r.Text())
	}
}

// answers waits until a server is ready and gives what its app tells of itself through the Hub's proxy.
func (s *hubSite) answers(user, name string) map[string]any {
	s.t.Helper()
	server := s.hub.WaitReady(user, name)
	var facts map[string]any
	s.eventually(fmt.Sprintf("server %q of %s answers", name, user), func() bool {
		r := s.hub.Through(s.token(user), http.MethodGet, server.URL+"api", nil)
		return r.Status == http.StatusOK && json.Unmarshal(r.Body, &facts) == nil
	})
	return facts
}

// stop stops a server and waits until neither the Hub nor the Docker Engine has it.
func (s *hubSite) stop(user, name string) {
	s.t.Helper()
	if r := s.hub.StopServer(user, name); r.Status != http.StatusAccepted && r.Status != http.StatusNoContent {
		s.t.Fatalf("stop server %q of %s: %s", name, user, r.Text())
	}
	s.gone(user, name)
}

// gone waits until a server is stopped, for the Hub and for the service.
func (s *hubSite) gone(user, name string) {
	s.t.Helper()
	s.hub.WaitStopped(user, name)
	s.eventually(fmt.Sprintf("the session %q of %s is stopped", name, user), func() bool {
		phase := s.sessionOf(user, name).Phase
		return phase == "" || phase == "stopped"
	})
}

// failed returns the last event of a start, which must say that it failed.
func (s *hubSite) failed(user, name string) string {
	s.t.Helper()
	events := s.hub.Progress(user, name)
	last := events[len(events)-1]
	if !last.Failed {
		s.t.Fatalf("the start of %q of %s did not fail: %+v", name, user, events)
	}
	return last.Message + last.HTMLMessage
}

// containers returns the names of this site's containers that run.
func (s *hubSite) containers() []string {
	s.t.Helper()
	out, err := exec.Command("docker", "ps", "--filter", "label=slipway.instance="+s.instance, "--format", "{{.Names}}").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Fields(string(out))
}

func (s *hubSite) showLog() {
	testenv.ShowLog(s.t, "the service's log", filepath.Join(s.dir, "serve.log"))
}

// clear has the service discard everything, and fails the test when something is left.
func (s *hubSite) clear() {
	s.hub.Restart()
	if !s.serves() {
		s.serve()
	}
	s.eventually("everything is discarded", func() bool {
		all := s.sessions()
		for _, w := range all {
			s.as(hubtest.Admin, http.MethodDelete, "/sessions/"+w.ID, nil)
		}
		return len(all) == 0
	})
	s.end()
	out, err := exec.Command("docker", "ps", "-aq", "--filter", "label=slipway.instance="+s.instance).Output()
	if err != nil || len(out) > 0 {
		s.t.Errorf("containers are left: %v %s", err, out)
	}
	if mounts, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(mounts), s.dir) {
		s.t.Errorf("mounts are left below %s", s.dir)
	}
	if left, _ := os.ReadDir(filepath.Join(s.dir, "data", "workloads")); len(left) > 0 {
		s.t.Errorf("workload directories are left: %v", left)
	}
}

// docker runs the engine's own program on a container of this site.
func docker(t testing.TB, argv ...string) {
	t.Helper()
	if out, err := exec.Command("docker", argv...).CombinedOutput(); err != nil {
		t.Fatalf("docker %v: %v: %s", argv, err, out)
	}
}
