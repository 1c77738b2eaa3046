package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway/internal/testenv"
	"slipway/internal/testenv/oidcissuer"
	"slipway/internal/xrd/xrdtest"
)

// TestStorageInSessions: a session has its storage as directories, also over a service that is killed; it is told where
// files are; and when it has ended nothing of it is left mounted, and what its end has lost is told.
func TestStorageInSessions(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.XRootDFS)
	origin := xrdtest.Origin(t)
	cache := xrdtest.Cache(t, origin)
	origin.Put("a", "content")
	unmountAfter(t)
	s := newSite(t, fmt.Sprintf("\ndata:\n  storage:\n    - {name: eos, origin: %q, path: /data, cache: %q, mount: true, write: true}\n", origin.URL, cache.URL))
	id := s.session("alice", "one")
	up := lastEvent(s.events(id))
	s.eventually("the storage is there", func() bool {
		return s.in("alice", "cat /storage/eos/a /storage/eos.cached/a 2>/dev/null; true") == "contentcontent"
	})
	if got := s.in("alice", "touch /storage/eos.cached/b 2>&1; mkdir /storage/eos/mine && echo made; touch /storage/x 2>&1; true"); strings.Count(got, "Read-only file system") != 2 || !strings.Contains(got, "made") {
		t.Errorf("written: %s", got)
	}
	if got := s.in("alice", "slipway data url eos:a; slipway data url --write /storage/eos.cached/a; slipway data"); !strings.HasPrefix(got, cache.URL+"//data/a\n"+origin.URL+"//data/a\n") ||
		!strings.Contains(got, "/storage/eos, /storage/eos.cached") {
		t.Errorf("slipway data: %s", got)
	}
	s.jobHasStorage(origin)
	s.in("alice", "cd /storage/eos; nohup sleep 600 > /dev/null 2>&1 </dev/null &") // it is busy until the end
	s.kill()
	s.serve()
	s.eventually("the session answers again", func() bool {
		return s.call("", http.MethodPost, "/user/alice/run", "true").status == http.StatusOK
	})
	if got := s.in("alice", "cat /storage/eos/a"); got != "content" {
		t.Errorf("after a restart: %q", got)
	}
	s.in("alice", "exec 3>/storage/eos/mine/late; echo begun >&3; nohup sleep 600 > /dev/null 2>&1 </dev/null &") // who ends with the session
	origin.Kill()
	if r := s.call("alice", http.MethodPost, "/api/v1/sessions/"+id+"/stop", nil); r.status != http.StatusOK {
		t.Fatalf("stop: %d %s", r.status, r.body)
	}
	s.eventually("nothing is mounted", func() bool {
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		return !strings.Contains(string(mounts), "/storage/"+id+"/")
	})
	s.eventually("she is told what is lost", func() bool {
		told := s.toldSince("sessions", id, up)
		up = lastEvent(told)
		return strings.Contains(told, "/storage/eos/mine/late may not be in the storage")
	})
	if _, err := os.Stat(origin.Data + "/mine"); err != nil {
		t.Errorf("what she made is gone: %v", err)
	}
}

// jobHasStorage has a job read and write where alice's session does, and wants none of its mounts left.
func (s *site) jobHasStorage(origin *xrdtest.Server) {
	s.t.Helper()
	s.in("alice", "echo changed >/opt/env/mine")
	if _, failure := s.freeze("alice", s.list("alice", "sessions")[0]["id"].(string)); failure != "" {
		s.t.Fatal(failure)
	}
	s.in("alice", `cat >/tmp/job.py <<'END'
import subprocess
for name in "eos", "eos.cached":
    print(name, open(f"/storage/{name}/a").read())
open("/storage/eos/mine/job", "w").write("the job's")
print(subprocess.run("touch /storage/eos.cached/b; slipway data", shell=True, capture_output=True, text=True))
END`)
	out := s.in("alice", "cd /tmp && slipway submit job.py 2>&1")
	for _, want := range []string{"eos content", "eos.cached content", "Read-only file system", "/storage/eos, /storage/eos.cached"} {
		if !strings.Contains(out, want) {
			s.t.Errorf("the job does not say %q: %s", want, out)
		}
	}
	xrdtest.Eventually(s.t, "the origin has what the job wrote", func() error { _, err := os.Stat(origin.Data + "/mine/job"); return err })
	s.eventually("nothing of the job is mounted", func() bool {
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		return !strings.Contains(string(mounts), s.dir+"/data/storage/j-")
	})
}

// TestRootInSessions: programs of the image reach a storage element by root:// and TLS, with what a session has in
// place: the token that is for it, and the authorities of the site.
func TestRootInSessions(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.XRootD)
	host := testenv.Bridge(t)
	trust, i := xrdtest.NewTrust(t, "localhost", host), oidcissuer.New(t)
	trust.Believe(i.URL, i.CAFile)
	origin := trust.TokenOrigin()
	origin.Put("alice/hers", "hers")
	secretFile := filepath.Join(t.TempDir(), "client-secret")
	if err := os.WriteFile(secretFile, []byte(oidcissuer.ClientSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, fmt.Sprintf(`
credentials:
  issuers: [{name: wlcg, issuer: %q, client_id: %s, client_secret_file: %q, ca_file: %q}]
  x509: {trust: %q}
data:
  storage: [{name: eos, origin: %q, path: /data, write: true, issuer: wlcg, audience: %q, scopes: ["storage.read:/", "storage.create:/alice"]}]
`, i.URL, oidcissuer.ClientID, secretFile, i.CAFile, trust.Dir, strings.Replace(origin.URL, "localhost", host, 1), trust.Audience))
	s.session("alice", "one")
	if r := s.call("alice", http.MethodPut, "/api/v1/credentials/wlcg/refresh-token", map[string]any{"refresh_token": i.Grant("alice@example")}); r.status != http.StatusOK {
		t.Fatalf("a refresh token is given: %d %s", r.status, r.body)
	}
	s.token("alice", "token-eos")
	s.in("alice", `cat >/tmp/root.py <<'END'
import subprocess, fsspec, numpy, uproot
from slipway import data
with uproot.recreate("/tmp/x.root") as f:
    f["t"] = {"a": numpy.arange(1000)}
print(subprocess.run(["xrdcp", "--silent", "/tmp/x.root", data.url("eos:alice/x.root", write=True)], capture_output=True))
print(uproot.open(data.url("eos:alice/x.root"))["t"]["a"].array().to_numpy().sum())
print(fsspec.open(data.url("eos:alice/hers")).open().read())
print(subprocess.run(["xrdcp", "--silent", "/tmp/x.root", data.url("eos:bob/x.root", write=True)], capture_output=True))
END`)
	out := s.in("alice", "export BEARER_TOKEN_FILE=/run/slipway/credentials/token-eos; timeout 100 python /tmp/root.py 2>&1; which voms-proxy-init; touch /etc/grid-security/certificates/x 2>&1; true")
	for _, want := range []string{"returncode=0", "499500", "b'hers'", "permission denied", "/usr/bin/voms-proxy-init", "touch: cannot touch '/etc/grid-security/certificates/x'"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in: %s", want, out)
		}
	}
	if t.Failed() {
		t.Log(origin.Log())
	}
}

// unmountAfter unmounts what lies in the test's directories once a site that is made later has been cleared, and before
// they are removed.
func unmountAfter(t testing.TB) {
	base := filepath.Dir(t.TempDir()) + "/"
	t.Cleanup(func() {
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		for line := range strings.Lines(string(mounts)) {
			if f := strings.Fields(line); strings.HasPrefix(f[4], base) {
				_ = syscall.Unmount(f[4], syscall.MNT_DETACH)
			}
		}
	})
}

// TestUnpackedTrees: a plain directory with trees in it, as cvmfsexec or an administrator makes, is CVMFS for sessions
// and jobs.
func TestUnpackedTrees(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("data: {cvmfs: {path: %q, repositories: [tree.example.org]}}", sharedDir(t)))
	id := s.session("alice", "one")
	const read = "cat /cvmfs/tree.example.org/hello.txt; touch /cvmfs/x 2>&1; true"
	if got := s.in("alice", read); !strings.HasPrefix(got, "hello from a tree\n") || !strings.Contains(got, "Read-only") {
		t.Errorf("the session says %q", got)
	}
	s.in("alice", "echo changed >/opt/env/mine")
	if _, failure := s.freeze("alice", id); failure != "" {
		t.Fatal(failure)
	}
	if got := s.in("alice", `cd /tmp; printf 'print(open("/cvmfs/tree.example.org/hello.txt").read())' >job.py; slipway submit job.py 2>&1`); !strings.Contains(got, "hello from a tree") {
		t.Errorf("the job says %q", got)
	}
}
