package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/internal/xrd/xrdtest"
)

// gridIn makes a Grid of one authority, which the directory trust has, and one person, alice.
func gridIn(t *testing.T) (run func(program string, args ...string), dir string) {
	t.Helper()
	dir = t.TempDir()
	run = func(program string, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), program, args...)
		c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ext"), []byte("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "trust"), 0o755); err != nil {
		t.Fatal(err)
	}
	run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "trust/ca.pem", "-days", "30", "-subj", "/O=Grid/CN=Root", "-addext", "keyUsage=critical,keyCertSign")
	run("openssl", "rehash", "trust")
	run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "alice.key", "-out", "alice.csr", "-subj", "/O=Grid/CN=Alice")
	run("openssl", "x509", "-req", "-in", "alice.csr", "-CA", "trust/ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "20", "-extfile", "ext", "-out", "alice.pem")
	run("chmod", "600", "alice.key")
	return run, dir
}

// TestProxiesInSessions: a proxy of voms-proxy-init, put from outside and from within the session, is the session's
// file; what is none is refused where it is; nobody else has it, and its key shows nowhere.
func TestProxiesInSessions(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.OpenSSL, testenv.VOMS)
	run, dir := gridIn(t)
	proxy := func(file string, args ...string) string {
		t.Helper()
		run("voms-proxy-init", append([]string{"-cert", "alice.pem", "-key", "alice.key", "-certdir", "trust", "-out", file, "-hours", "12"}, args...)...)
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first, second, limited := proxy("first"), proxy("second"), proxy("limited", "-limited")
	s := newSite(t, fmt.Sprintf("\ncredentials:\n  x509: {trust: %q, max_lifetime: 24h}\n", filepath.Join(dir, "trust")))
	id := s.session("alice", "one")
	if got := s.in("alice", `echo "$X509_USER_PROXY"; ls -d /tmp/x509up_u* 2>/dev/null; ls /run/slipway/credentials 2>/dev/null; true`); got != "" {
		t.Errorf("without any proxy: %q", got)
	}
	t.Run("root by token", s.rootByToken)
	put := func(text string) reply {
		return s.call("alice", http.MethodPut, "/api/v1/credentials/x509", map[string]any{"proxy": text})
	}
	if r := put(limited); r.status != 422 || !strings.Contains(string(r.body), "voms-proxy-init, without -limited") {
		t.Errorf("a limited one: %d %s", r.status, r.body)
	}
	if r := put(first); r.status != 200 || r.object(t)["subject"] != "/O=Grid/CN=Alice" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got := s.token("alice", "x509"); got != strings.TrimSpace(first) {
		t.Errorf("the session's file is not what was put")
	}
	const usual = "/tmp/x509up_u20000"
	linked := func() bool { return s.in("alice", "readlink "+usual+"; true") == "/run/slipway/credentials/x509" }
	s.eventually("the usual place leads to it", linked)
	if got := s.in("alice", "stat -L -c '%a %u' "+usual); got != "600 20000" {
		t.Errorf("the file is %q", got)
	}

	// From within, as voms-proxy-init leaves it.
	write := func(text string) { s.in("alice", "rm -f "+usual+"; cat > "+usual+" <<'END'\n"+text+"END") }
	write(second)
	if got := s.in("alice", "slipway proxy put; slipway proxy show"); !strings.Contains(got, "x509 of /O=Grid/CN=Alice is put, for all your sessions and jobs: good for 11 h") || !strings.Contains(got, "Authority  /O=Grid/CN=Root") {
		t.Errorf("%s", got)
	}
	s.eventually("the usual place leads to the one that was put there", linked)
	own, _ := os.ReadFile(filepath.Join(dir, "alice.pem"))
	key, _ := os.ReadFile(filepath.Join(dir, "alice.key"))
	write(string(own) + string(key))
	if got := s.in("alice", "slipway proxy put 2>&1; slipway credentials revoke x509 2>&1; true"); !strings.Contains(got, "is your own and not a proxy; nothing was sent") || !strings.Contains(got, "credentials are only listed") {
		t.Errorf("%s", got)
	}
	s.in("alice", "rm "+usual)
	for _, path := range []string{"/api/v1/credentials", "/api/v1/credentials?user=alice"} {
		if r := s.call("bob", http.MethodGet, path, nil); strings.Contains(string(r.body), "CN=Alice") {
			t.Errorf("bob sees %s", r.body)
		}
	}
	s.kill()
	s.serve()
	if r := s.call("alice", http.MethodGet, "/api/v1/credentials", nil); !strings.Contains(string(r.body), "/O=Grid/CN=Alice") {
		t.Errorf("after a restart: %s", r.body)
	}
	s.noKeyShows(id, first, second, limited, string(key))
	s.call("alice", http.MethodDelete, "/api/v1/sessions/"+id, nil)
	s.eventually("the session has ended", func() bool { p := s.phase("alice", "sessions", id); return p == "" || p == "stopped" })
	s.session("alice", "two")
	if got := s.in("alice", `echo "$X509_USER_PROXY"; readlink `+usual); got != "/run/slipway/credentials/x509\n/run/slipway/credentials/x509" {
		t.Errorf("started with a proxy: %q", got)
	}
	if r := s.call("alice", http.MethodDelete, "/api/v1/credentials/x509", nil); r.status != 200 {
		t.Errorf("remove: %d %s", r.status, r.body)
	}
	s.eventually("the file is gone", func() bool {
		return s.in("alice", "ls /run/slipway/credentials; ls -d /tmp/x509up_u* 2>/dev/null; true") == ""
	})
}

// rootByToken: with what a session has in its environment that has no proxy, XRootD's client gets in by a token.
func (s *site) rootByToken(t *testing.T) {
	trust := xrdtest.NewTrust(t)
	origin := trust.TokenOrigin()
	origin.Put("alice/file", "hers")
	file := filepath.Join(t.TempDir(), "token")
	xrdtest.Write(t, file, trust.Token("alice", "storage.read:/alice", time.Hour), 0o600)
	env := append(trust.Env(), strings.Fields(s.in("alice", "env | grep -E '^(X509|XRD|BEARER)'; true"))...)
	if out, err := xrdtest.Copy(t, append(env, "BEARER_TOKEN_FILE="+file), origin.URL+"//data/alice/file", filepath.Join(t.TempDir(), "got")); err != nil {
		t.Errorf("%v: %v %s", env, err, out)
	}
}

// noKeyShows looks for private keys where they could be left.
func (s *site) noKeyShows(id string, proxies ...string) {
	s.t.Helper()
	inspected, err := exec.Command("docker", "inspect", "slipway-"+id).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	logs, _ := exec.Command("docker", "logs", "slipway-"+id).CombinedOutput()
	places := map[string]string{"docker inspect": string(inspected), "docker logs": string(logs)}
	for _, path := range []string{"/metrics", "/api/v1/sessions", "/api/v1/credentials"} {
		places[path] = string(s.call("alice", http.MethodGet, path, nil).body)
	}
	files, _ := filepath.Glob(filepath.Join(s.dir, "data", "*"))
	for _, path := range append(files, filepath.Join(s.dir, "serve.log")) {
		text, _ := os.ReadFile(path) // directories have none
		places[path] = string(text)
	}
	for _, proxy := range proxies {
		_, rest, _ := strings.Cut(proxy, "PRIVATE KEY-----\n")
		line := strings.Split(rest, "\n")[3]
		for place, text := range places {
			if strings.Contains(text, line) {
				s.t.Errorf("%s holds a private key", place)
			}
		}
	}
}
