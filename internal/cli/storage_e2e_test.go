package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/internal/xrd/xrdtest"
)

// TestStorageInSessions: a session has its storage as directories, also over a service that is killed; it is told where files are; and
// when it has ended nothing of it is left mounted.
func TestStorageInSessions(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.XRootDFS)
	origin := xrdtest.Origin(t)
	cache := xrdtest.Cache(t, origin)
	origin.Put("a", "content")
	unmountAfter(t)
	s := newSite(t, fmt.Sprintf("\ndata:\n  storage:\n    - {name: eos, origin: %q, path: /data, cache: %q, mount: true, write: true}\n", origin.URL, cache.URL))
	id := s.session("alice", "one")
	s.eventually("the storage is there", 60*time.Second, func() bool {
		return s.in("alice", "cat /storage/eos/a /storage/eos.cached/a 2>/dev/null; true") == "contentcontent"
	})
	if got := s.in("alice", "touch /storage/eos.cached/b 2>&1; mkdir /storage/eos/mine && echo made; touch /storage/x 2>&1; true"); strings.Count(got, "Read-only file system") != 2 || !strings.Contains(got, "made") {
		t.Errorf("written: %s", got)
	}
	if got := s.in("alice", "slipway data url eos:a; slipway data url --write /storage/eos.cached/a; slipway data"); !strings.HasPrefix(got, cache.URL+"//data/a\n"+origin.URL+"//data/a\n") ||
		!strings.Contains(got, "/storage/eos, /storage/eos.cached") {
		t.Errorf("slipway data: %s", got)
	}
	s.in("alice", "cd /storage/eos; nohup sleep 600 > /dev/null 2>&1 </dev/null &") // it is busy until the end
	s.kill()
	s.serve()
	s.eventually("the session answers again", 60*time.Second, func() bool {
		return s.call("", http.MethodPost, "/user/alice/run", "true").status == http.StatusOK
	})
	if got := s.in("alice", "cat /storage/eos/a"); got != "content" {
		t.Errorf("after a restart: %q", got)
	}
	if r := s.call("alice", http.MethodPost, "/api/v1/sessions/"+id+"/stop", nil); r.status != http.StatusOK {
		t.Fatalf("stop: %d %s", r.status, r.body)
	}
	s.eventually("nothing is mounted", 60*time.Second, func() bool {
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		return !strings.Contains(string(mounts), "/storage/"+id+"/")
	})
	if _, err := os.Stat(origin.Data + "/mine"); err != nil {
		t.Errorf("what she made is gone: %v", err)
	}
}

// unmountAfter unmounts what lies in the test's directories once a site that is made later has been cleared, and before they are removed.
func unmountAfter(t *testing.T) {
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
