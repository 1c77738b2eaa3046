package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// rewrite changes the configuration, and has the service run with it.
func (s *site) rewrite(pairs ...string) {
	s.t.Helper()
	s.kill()
	name := filepath.Join(s.dir, "slipway.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("slipway.yaml", strings.NewReplacer(pairs...).Replace(string(text)))
	s.serve()
}

// littleDisk mounts a file system of some megabytes.
func littleDisk(t *testing.T, dir string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk")
	for _, argv := range [][]string{
		{"truncate", "-s", "12M", image}, {"mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image}, {"mkdir", dir}, {"mount", "-o", "loop", image, dir},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no file system of its own can be made here: %v: %v %s", argv, err, out)
		}
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// lab starts a real JupyterLab without a Hub.
func (s *site) lab(user, launch, profile string) reply {
	prefix := "/user/" + user + "/"
	const start = `exec jupyter lab --no-browser --ip=127.0.0.1 --ServerApp.base_url="$JUPYTERHUB_SERVICE_PREFIX" --IdentityProvider.token= --ServerApp.disable_check_xsrf=True ` +
		`--ServerApp.port="$(echo "$JUPYTERHUB_SERVICE_URL" | sed 's,.*:\([0-9]*\)/.*,\1,')"`
	return s.call("hub", http.MethodPost, "/api/v1/sessions", map[string]any{
		"user": user, "server_name": "", "options": map[string]any{"profile": profile}, "launch": launch, "prefix": prefix,
		"argv": []string{"sh", "-c", start},
		"env": map[string]string{
			"JUPYTERHUB_SERVICE_PREFIX": prefix, "JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:8888" + prefix, "JUPYTERHUB_API_URL": s.hub.URL + "/hub/api",
		},
	})
}

// TestHomesAndAreas: homes by the site's rule, areas in sessions and jobs; a home that fills up is told of, one that is
// full is cleared up in a rescue session, and what is another's or a link is refused.
func TestHomesAndAreas(t *testing.T) {
	t.Parallel()
	homes := filepath.Join(t.TempDir(), "disk") // unmounted after the site has been cleared
	littleDisk(t, homes)
	s := newSite(t, fmt.Sprintf("data:\n  areas:\n    - {name: scratch, path: '%[1]s/scratch/{login}', inside: /scratch, write: true, create: true}\n"+
		"    - {name: common, path: '%[1]s/common', inside: /common}\n    - {name: gone, path: '%[1]s/gone', inside: /gone}\n", t.TempDir()))
	area := filepath.Dir(areaOf(t, s, "common"))
	if err := os.Mkdir(filepath.Join(area, "common"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(area, "common/data"), []byte("everybody's"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.rewrite("/homes}\n", "/homes, home: {path: '"+homes+"/{initial}/{name}', poll_interval: 1s}}\n",
		"default: true}\n", "default: true}\n  - {name: rescue, display_name: Rescue, kind: lab, images: [notebook], cpus: 0.5, memory: 512M, rescue: true}\n")

	id := s.session("alice", "one")
	if got := s.in("alice", `echo mine >~/mine; echo it >/scratch/it; cat /common/data; echo; echo $SLIPWAY_AREA_SCRATCH; touch /common/x 2>&1; true`); !strings.HasPrefix(got, "everybody's\n/scratch\n") ||
		!strings.Contains(got, "Read-only file system") {
		t.Errorf("in the session: %s", got)
	}
	for _, name := range []string{homes + "/a/alice/mine", area + "/scratch/alice/it"} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	if events := s.events(id); !strings.Contains(events, "/gone is not there: there is no "+area+"/gone") {
		t.Errorf("its start did not tell of the area that is missing: %s", events)
	}
	s.in("alice", `printf 'import os\nprint(open("/scratch/it").read() + open("/common/data").read(), os.environ["SLIPWAY_AREA_SCRATCH"])\nopen("/scratch/job", "w").close()' >/tmp/job.py`)
	if out := s.in("alice", "cd /tmp && slipway submit job.py"); !strings.Contains(out, "it\neverybody's /scratch") {
		t.Errorf("the job printed %s", out)
	}

	s.in("alice", "dd if=/dev/zero of=$HOME/big bs=1M 2>/dev/null; dd if=/dev/zero of=$HOME/rest bs=1k 2>/dev/null; true")
	s.eventually("its user is told that the home is full", func() bool {
		log, _ := os.ReadFile(filepath.Join(s.dir, "serve.log"))
		return strings.Contains(string(log), "/home/alice is more than 95 % full")
	})
	if got := s.in("alice", "slipway quota; slipway home usage; slipway sessions show self"); !strings.Contains(got, "the whole file system)") || !strings.Contains(got, "  full") ||
		!strings.Contains(got, "/home/alice/big") || strings.Count(got, "/home/alice: ") != 1 {
		t.Errorf("slipway quota, home usage and sessions show: %s", got)
	}
	if r := s.call("alice", http.MethodPost, "/api/v1/sessions/"+id+"/stop", nil); r.status != http.StatusOK {
		t.Fatalf("stop: %d %s", r.status, r.body)
	}
	s.rescue()
	s.refusedHomes(homes)
}

// areaOf returns an area's path by the configuration.
func areaOf(t *testing.T, s *site, name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, "slipway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "name: "+name+", path: '")
	path, _, _ := strings.Cut(rest, "'")
	return path
}

func (s *site) events(id string) string {
	return string(s.call("root", http.MethodGet, "/api/v1/sessions/"+id+"/events", nil).body) + string(s.call("root", http.MethodGet, "/api/v1/sessions/"+id, nil).body)
}

// rescue wants a JupyterLab to fail with a full home in plain words, one of the rescue profile to come up and make
// room, and the other to come up then.
func (s *site) rescue() {
	s.t.Helper()
	id := s.lab("alice", "two", "small").object(s.t)["id"].(string)
	s.eventually("JupyterLab fails with a full home", func() bool { return s.over(id) })
	if got := s.events(id); !strings.Contains(got, "Your home is full: ") || !strings.Contains(got, "; your home is full: ") || !strings.Contains(got, "start the profile “Rescue”") {
		s.t.Errorf("a failed start says %s", got)
	}
	id = s.lab("alice", "three", "rescue").object(s.t)["id"].(string)
	s.running(id)
	for _, name := range []string{"big", "rest"} {
		if r := s.call("", http.MethodDelete, "/user/alice/api/contents/"+name, nil); r.status != http.StatusNoContent {
			s.t.Errorf("delete %s: %d %s", name, r.status, r.body)
		}
	}
	if r := s.call("alice", http.MethodPost, "/api/v1/sessions/"+id+"/stop", nil); r.status != http.StatusOK {
		s.t.Fatalf("stop: %d %s", r.status, r.body)
	}
	s.running(s.lab("alice", "four", "small").object(s.t)["id"].(string))
}

func (s *site) over(id string) bool {
	return s.call("root", http.MethodGet, "/api/v1/sessions/"+id, nil).object(s.t)["phase"] == "stopped"
}

// refusedHomes wants starts to be refused where a home is a link, or another's, with the reason.
func (s *site) refusedHomes(homes string) {
	s.t.Helper()
	for _, err := range []error{os.Mkdir(homes+"/m", 0o755), os.Symlink("/etc", homes+"/m/mallory"), os.Mkdir(homes+"/m/mike", 0o755)} {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for user, why := range map[string]string{"mallory": "is a link, which is not followed", "mike": "is not a directory of user id"} {
		r := s.ask(user, user)
		if r.status != http.StatusAccepted {
			s.t.Fatalf("%s: %d %s", user, r.status, r.body)
		}
		id := r.object(s.t)["id"].(string)
		s.eventually("the start of "+user+" is refused", func() bool { return s.over(id) })
		if got := s.events(id); !strings.Contains(got, why) {
			s.t.Errorf("%s: %s", user, got)
		}
	}
}
