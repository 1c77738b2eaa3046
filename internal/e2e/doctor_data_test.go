package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/testenv"
	"slipway/internal/testenv/autofs"
	"slipway/internal/testenv/oidcissuer"
	"slipway/internal/xrd/xrdtest"
)

// TestDataDoctor: a session looks at its data by itself, and again when it is asked; what is wrong is on record, in its
// events and on its own terminal; a job looks too; nothing is left on the storage.
func TestDataDoctor(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.XRootDFS)
	a := autofs.Start(t)
	origin := xrdtest.Origin(t)
	cache := xrdtest.Cache(t, origin)
	i := oidcissuer.New(t)
	bridged := strings.NewReplacer("localhost", testenv.Bridge(t)) // as containers reach the servers
	secretFile := filepath.Join(t.TempDir(), "client-secret")
	if err := os.WriteFile(secretFile, []byte(oidcissuer.ClientSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	unmountAfter(t)
	s := newSite(t, fmt.Sprintf(`
credentials: {issuers: [{name: wlcg, issuer: %q, client_id: %s, client_secret_file: %q, ca_file: %q}]}
data:
  cvmfs: {path: %q, repositories: [%s, %s]}
  storage: [{name: eos, origin: %q, path: /data, cache: %q, mount: true, write: true}]
`, i.URL, oidcissuer.ClientID, secretFile, i.CAFile, a.Dir, autofs.Repository, autofs.Dead, bridged.Replace(origin.URL), bridged.Replace(cache.URL)))
	if r := s.call("alice", http.MethodPut, "/api/v1/credentials/wlcg/refresh-token", map[string]any{"refresh_token": i.Grant("alice@example")}); r.status != http.StatusOK {
		t.Fatalf("a refresh token is given: %d %s", r.status, r.body)
	}
	id := s.session("alice", "one")
	found := s.dataReport(id, "it has looked", func(r hubapi.DataReport) bool { return len(r.Checks) > 0 })
	for check, want := range map[string]string{
		"clock": "ok agrees", "CVMFS " + autofs.Repository: "ok read in", "CVMFS " + autofs.Dead: "fail it does not answer",
		"storage eos": "ok /data lists", "writing to storage eos": "ok 256 KiB", "reading storage eos": "ok the probe file",
		"cache of storage eos": "ok the probe file: first", "token token": "", "issuer wlcg": "ok answers at the service",
	} {
		if got := found[check]; !strings.HasPrefix(got, want) || got == "" {
			t.Errorf("%s: want %q, have %q", check, want, got)
		}
	}
	if events := s.call("alice", http.MethodGet, "/api/v1/sessions/"+id+"/log?tail=1", nil); events.status != http.StatusOK {
		t.Errorf("the session does not answer: %d", events.status)
	}
	if got := s.in("alice", "slipway doctor data; echo code $?"); !strings.HasPrefix(got, "RESULT ") || !strings.Contains(got, "CVMFS "+autofs.Dead+": ") || !strings.HasSuffix(got, "code 1") {
		t.Errorf("slipway doctor data: %s", got)
	}
	if got := s.in("alice", "slipway sessions show self"); !strings.Contains(got, "data fail") {
		t.Errorf("slipway sessions show: %s", got)
	}

	cache.Kill()
	i.Down(true)
	s.eventually("the issuer is looked at anew", func() bool { // by the service, not more often than every few seconds
		s.in("alice", "slipway doctor data --quiet")
		found = s.dataReport(id, "it is told", func(hubapi.DataReport) bool { return true })
		return strings.HasPrefix(found["issuer wlcg"], "warn does not answer, neither here nor")
	})
	s.in("alice", "chmod 644 /run/slipway/credentials/token")
	again := func() reply { return s.call("alice", http.MethodPost, "/api/v1/sessions/"+id+"/data-check", nil) }
	asked := time.Now()
	if r := again(); r.status != http.StatusAccepted {
		t.Fatalf("check again: %d %s", r.status, r.body)
	}
	found = s.dataReport(id, "it has looked again", func(r hubapi.DataReport) bool { return !r.Running })
	if r := again(); time.Since(asked) < time.Minute && (r.status != http.StatusConflict || !strings.Contains(string(r.body), "try again in")) {
		t.Errorf("and again at once: %d %s", r.status, r.body)
	}
	for check, want := range map[string]string{"cache of storage eos": "warn", "reading storage eos": "ok", "token token": "fail others may read it"} {
		if got := found[check]; !strings.HasPrefix(got, want) {
			t.Errorf("with faults, %s: want %q, have %q", check, want, got)
		}
	}

	environment, failure := s.freeze("alice", id)
	if failure != "" {
		t.Fatal(failure)
	}
	job := s.submit("alice", environment["digest"].(string), "slipway doctor data --json", nil)
	s.ended("alice", job)
	var report hubapi.DataReport
	log := s.call("alice", http.MethodGet, "/api/v1/jobs/"+job+"/log", nil)
	if err := json.Unmarshal(log.body, &report); err != nil || byCheck(report)["writing to storage eos"] == "" {
		t.Errorf("the job found %v: %s", err, log.body)
	}
	if left, _ := filepath.Glob(filepath.Join(origin.Data, ".slipway-probe-*")); len(left) > 0 {
		t.Errorf("left on the storage: %v", left)
	}
}

// dataReport returns what was found of a session's data, by check, once ok.
func (s *site) dataReport(id, what string, ok func(hubapi.DataReport) bool) (found map[string]string) {
	s.t.Helper()
	var last hubapi.DataReport
	s.eventually(what, func() bool {
		r := s.call("alice", http.MethodGet, "/api/v1/sessions/"+id+"/data-check", nil)
		last = hubapi.DataReport{}
		return r.status == http.StatusOK && json.Unmarshal(r.body, &last) == nil && ok(last)
	})
	return byCheck(last)
}

func byCheck(r hubapi.DataReport) map[string]string {
	all := map[string]string{}
	for _, c := range r.Checks {
		all[c.Check] = c.Result + " " + c.Finding
	}
	return all
}
