package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slipway/internal/hubtest"
)

// marked gives every session a secret of the Hub's, and one user a credential that is wrong.
const marked = `
c.OutpostSpawner.custom_env = {"MARK": "the-mark-of-the-environment"}
right = c.OutpostSpawner.request_headers
wrong = {"Authorization": "Basic " + base64.b64encode(b"hub1:not-the-password").decode()}
c.OutpostSpawner.request_headers = lambda spawner, options: wrong if spawner.user.name == "mallory" else right
c.OutpostSpawner.custom_poll_interval = 2000
c.Spawner.http_timeout = 120
del c.Spawner.poll_interval
`

// TestNoSecretShowsBehindAHub looks for every secret that the service gets in its log with all details, its files, the
// host's process list, what the Docker Engine tells of containers, the metrics and the API: while one session runs,
// another waits with its secrets sealed, a third was refused and a person looks at the pages; and when all of that is
// over.
func TestNoSecretShowsBehindAHub(t *testing.T) {
	t.Parallel()
	s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Outpost, cpus: 1, config: marked})
	s.kill()
	s.flags = []string{"--verbose"}
	s.serve()
	whole := map[string]any{"flavor": "whole"}
	s.startOnly("real.alice", "", whole)
	s.hub.WaitReady("real.alice", "")
	s.startOnly("bob", "", whole)
	s.phaseOf("bob", "pending")
	s.startOnly("mallory", "", whole)
	s.gone("mallory", "")
	secrets := map[string]string{
		"the mark": "the-mark-of-the-environment", "the service's token": hubtest.ServiceToken, "the spawner's token": hubtest.SpawnerToken,
		"the Outpost password": hubtest.OutpostPassword, "the wrong password": "not-the-password", "a user's token": s.token("bob"),
		"the credential": base64.StdEncoding.EncodeToString([]byte(hubtest.OutpostUser + ":" + hubtest.OutpostPassword)),
	}
	s.visitPages(secrets)
	id := s.sessionOf("real.alice", "").ID
	environ, err := exec.Command("docker", "exec", "slipway-"+id, "sh", "-c", "cat /proc/[0-9]*/environ").Output()
	if err != nil || !strings.Contains(string(environ), secrets["the mark"]) {
		t.Fatalf("the app did not get its secrets: %v", err)
	}
	token := regexp.MustCompile(`JUPYTERHUB_API_TOKEN=([0-9a-f]{32})`).FindStringSubmatch(string(environ))
	if token == nil {
		t.Fatal("the app has no token")
	}
	secrets["the session's token"] = token[1]
	s.secretIn(secrets, "docker inspect", inspect(t, id))
	s.secretIn(secrets, "docker logs", inspectLogs(id))
	s.noSecretShows(secrets)

	s.kill() // with bob's start still sealed
	s.serve()
	s.phaseOf("bob", "pending")
	s.stop("real.alice", "")
	s.opens("bob", s.hub.WaitReady("bob", "").URL) // it has its secrets
	s.stop("bob", "")
	s.noSecretShows(secrets)
	if log, _ := os.ReadFile(filepath.Join(s.dir, "serve.log")); !strings.Contains(string(log), "level=DEBUG") {
		t.Error("the log has no details")
	}
}

// visitPages looks at the pages as a person, and notes the secrets of that visit.
func (s *hubSite) visitPages(secrets map[string]string) {
	s.t.Helper()
	person := s.hub.Browse("bob")
	page := person.Get("/services/slipway/")
	if page.Status != http.StatusOK || !strings.Contains(string(page.Body), s.sessionOf("bob", "").ID) {
		s.t.Fatalf("bob's page: %s", page.Text())
	}
	for _, c := range person.Cookies("/services/slipway/") {
		if len(c.Value) > 16 {
			secrets["the cookie "+c.Name] = c.Value
		}
	}
	form := regexp.MustCompile(`name="token" value="([^"]+)"`).FindSubmatch(page.Body)
	if secrets["the cookie slipway-visit"] == "" || form == nil {
		s.t.Fatalf("no visit: %v", secrets)
	}
	secrets["the form's token"] = string(form[1])
}

// noSecretShows looks in all places where the service could leave one.
func (s *hubSite) noSecretShows(secrets map[string]string) {
	s.t.Helper()
	for _, path := range []string{"/metrics", "/readyz", "/services/slipway/", "/"} {
		s.secretIn(secrets, path, string(hubtest.Ask(s.t, "", http.MethodGet, s.url+path, nil).Body))
	}
	for _, path := range []string{"/sessions", "/me", "/profiles", "/spawn-form"} {
		s.secretIn(secrets, path, string(s.as(hubtest.Admin, http.MethodGet, path, nil).body))
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range append(lines, filepath.Join(s.dir, "serve.log")) {
		text, _ := os.ReadFile(path) // a process may have ended
		s.secretIn(secrets, path, string(text))
	}
	_ = filepath.WalkDir(filepath.Join(s.dir, "data"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(path) != ".sqfs" { // the image's, made before there was any secret
			text, _ := os.ReadFile(path)
			s.secretIn(secrets, path, string(text))
		}
		return nil
	})
}

func (s *hubSite) secretIn(secrets map[string]string, place, text string) {
	s.t.Helper()
	for name, secret := range secrets {
		if i := strings.Index(text, secret); i >= 0 {
			s.t.Errorf("%s stands in %s: %q", name, place, text[max(0, i-80):min(len(text), i+20)])
		}
	}
}

func inspect(t *testing.T, id string) string {
	t.Helper()
	out, err := exec.Command("docker", "inspect", "slipway-"+id).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func inspectLogs(id string) string {
	out, err := exec.Command("docker", "logs", "slipway-"+id).CombinedOutput()
	return fmt.Sprint(string(out), err)
}
