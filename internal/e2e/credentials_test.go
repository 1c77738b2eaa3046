package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/testenv/oidcissuer"
)

// issuing are the lines of a site's configuration for an issuer, and a storage element that takes its tokens.
func issuing(i *oidcissuer.Issuer, secretFile string) string {
	return fmt.Sprintf(`
credentials:
  issuers:
    - {name: wlcg, issuer: %q, client_id: %s, client_secret_file: %q, ca_file: %q}
data:
  storage:
    - {name: eos, origin: "root://eos.example:1094", path: /eos, issuer: wlcg, audience: "https://eos.example", scopes: ["storage.read:/eos"]}
`, i.URL, oidcissuer.ClientID, secretFile, i.CAFile)
}

// keepWatch is a program in a session or job that reads the token again and again, and tells of each that is not a
// whole one, and of each that is new, for some seconds or until it has seen so many.
const keepWatch = `
import os, sys, time
path, last, end = os.environ["BEARER_TOKEN_FILE"], None, time.time() + float(sys.argv[1])
more = int(sys.argv[2]) if len(sys.argv) > 2 else -1
while time.time() < end and more != 0:
    try:
        with open(path) as f:
            text = f.read()
    except FileNotFoundError:
        text = ""
    if text and (text.count(".") != 2 or len(text) < 200 or not text.strip() == text):
        print("half", len(text), flush=True)
    if text != last:
        print("new" if text else "none", flush=True)
        last, more = text, more - bool(text)
    time.sleep(0.002)
`

// TestTokensInSessionsAndJobs: a session and a job have their user's token, renewed while they run, also after the
// service was killed; a storage element's is narrower; what is removed is gone from them; and no token shows anywhere
// else.
func TestTokensInSessionsAndJobs(t *testing.T) {
	t.Parallel()
	i := oidcissuer.New(t)
	i.Life(12 * time.Second)
	secretFile := filepath.Join(t.TempDir(), "client-secret")
	if err := os.WriteFile(secretFile, []byte(oidcissuer.ClientSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, issuing(i, secretFile))
	s.kill()
	s.flags = []string{"--verbose"}
	s.serve()

	id := s.session("alice", "one")
	if got := s.in("alice", `echo "$BEARER_TOKEN_FILE $BEARER_TOKEN"; ls /run/slipway/credentials 2>/dev/null; true`); got != "/run/slipway/credentials/token" {
		t.Errorf("without any token: %q", got)
	}
	given := s.call("alice", http.MethodPut, "/api/v1/credentials/wlcg/refresh-token", map[string]any{"refresh_token": i.Grant("alice@example")})
	if given.status != http.StatusOK || given.object(t)["subject"] != "alice@example" {
		t.Fatalf("a refresh token is given: %d %s", given.status, given.body)
	}
	first := s.token("alice", "token")
	if got := s.in("alice", "stat -c '%a %u' /run/slipway/credentials /run/slipway/credentials/token"); got != "700 20000\n600 20000" {
		t.Errorf("the files are %q", got)
	}
	if narrow := claims(t, s.token("alice", "token-eos")); narrow["aud"] != "https://eos.example" || narrow["scope"] != "storage.read:/eos" {
		t.Errorf("the storage element's token: %v", narrow)
	}
	s.in("alice", "echo x > /opt/env/marker")
	frozen, failure := s.freeze("alice", id)
	if failure != "" {
		t.Fatal(failure)
	}
	digest := frozen["digest"].(string)
	job := s.submit("alice", digest, `cat > w.py <<'END'`+keepWatch+"END\nls /run/slipway/credentials; exec python3 w.py 30", nil)
	s.in("alice", "cat > w.py <<'END'"+keepWatch+"END\nnohup python3 w.py 600 > watched 2>&1 &")

	s.kill() // while both run
	s.serve()
	s.renewed("alice", first)
	second := s.token("alice", "token")
	s.renewed("alice", second)
	s.ended("alice", job)
	log := string(s.call("alice", http.MethodGet, "/api/v1/jobs/"+job+"/log", nil).body)
	if strings.Contains(log, "half") || strings.Count(log, "new") < 2 || !strings.Contains(log, "token\ntoken-eos\n") {
		t.Errorf("the job saw\n%s", log)
	}

	i.Withdraw("alice@example") // at the issuer: what she has holds, and she is told
	s.eventually("she is told", func() bool {
		return strings.Contains(string(s.call("alice", http.MethodGet, "/api/v1/credentials", nil).body), "log in again")
	})
	events := string(s.call("alice", http.MethodGet, "/api/v1/credentials", nil).body)
	given = s.call("alice", http.MethodPut, "/api/v1/credentials/wlcg/refresh-token", map[string]any{"refresh_token": i.Grant("alice@example")})
	if given.status != http.StatusOK {
		t.Fatalf("given again: %d %s, %s", given.status, given.body, events)
	}
	if r := s.call("alice", http.MethodDelete, "/api/v1/credentials/wlcg", nil); r.status/100 != 2 {
		t.Errorf("remove: %d %s", r.status, r.body)
	}
	s.eventually("the files are gone", func() bool { return s.in("alice", "ls /run/slipway/credentials") == "" })
	if !i.Ended("alice@example") {
		t.Error("the issuer was not told")
	}
	watched := s.in("alice", "cat watched")
	if strings.Contains(watched, "half") || strings.Count(watched, "new") < 4 || !strings.HasSuffix(watched, "none") {
		t.Errorf("the session saw\n%s", watched)
	}
	s.noTokenShows(i, id, digest)
}

// token returns a file of a user's session once it is there.
func (s *site) token(user, name string) (text string) {
	s.t.Helper()
	s.eventually("there is "+name, func() bool {
		text = s.look(user, "/run/slipway/credentials/"+name)
		return text != ""
	})
	return text
}

func (s *site) renewed(user, old string) {
	s.t.Helper()
	s.eventually("the token is renewed", func() bool {
		text := s.look(user, `"$BEARER_TOKEN_FILE"`)
		return text != "" && text != old
	})
}

// look returns a file of a user's session; empty when it is not there, or the session does not answer just now.
func (s *site) look(user, file string) string {
	var done struct{ Out string }
	r := s.call("", http.MethodPost, "/user/"+user+"/run", "cat "+file+" 2>/dev/null")
	if r.status != http.StatusOK || json.Unmarshal(r.body, &done) != nil {
		return ""
	}
	return strings.TrimSpace(done.Out)
}

// noTokenShows looks for all that the issuer ever gave, where it could be left.
func (s *site) noTokenShows(i *oidcissuer.Issuer, id, digest string) {
	s.t.Helper()
	inspected, err := exec.Command("docker", "inspect", "slipway-"+id).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	logs, _ := exec.Command("docker", "logs", "slipway-"+id).CombinedOutput()
	changes, err := exec.Command("docker", "diff", "slipway-"+id).Output()
	if err != nil || strings.Contains(string(changes), "credentials") {
		s.t.Errorf("what the session has changed, as a freeze takes it, has the tokens in it: %v\n%s", err, changes)
	}
	places := map[string]string{"docker inspect": string(inspected), "docker logs": string(logs)}
	for _, path := range []string{"/metrics", "/api/v1/sessions", "/api/v1/jobs", "/api/v1/credentials", "/api/v1/environments", "/api/v1/environments/" + digest} {
		places[path] = string(s.call("alice", http.MethodGet, path, nil).body)
	}
	if !strings.Contains(places["/metrics"], `slipway_token_refreshes_total{issuer="wlcg",result="refused"} 1`) {
		s.t.Error("the metrics have no refusal")
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	_ = filepath.WalkDir(filepath.Join(s.dir, "data"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path) // images too: what was frozen while the session had a token
		}
		return nil
	})
	for _, path := range append(files, filepath.Join(s.dir, "serve.log")) {
		if info, err := os.Stat(path); err == nil && info.Size() < 64<<20 {
			text, _ := os.ReadFile(path) // a process may have ended
			places[path] = string(text)
		}
	}
	for place, text := range places {
		for _, secret := range append(i.Given(), oidcissuer.ClientSecret) {
			if strings.Contains(text, secret) {
				s.t.Errorf("%s holds %.12s...", place, secret)
			}
		}
	}
}

// claims reads what a token says.
func claims(t *testing.T, token string) (all map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%d bytes are no token", len(token))
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}
