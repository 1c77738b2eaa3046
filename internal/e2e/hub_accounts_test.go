package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/hubtest"
)

// TestAccountsOfATable: sessions have their users' own numbers and groups; who has none is told why on the Hub's page;
// what changes is a matter of the next start.
func TestAccountsOfATable(t *testing.T) {
	t.Parallel()
	table := filepath.Join(t.TempDir(), "table")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(table+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(table+".new", table); err != nil {
			t.Fatal(err)
		}
	}
	write("alice 41001 100,47111=higgs\n")
	s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Slipway, users: ", accounts: table, table: " + table})
	s.start("alice", "", nil)
	id := s.sessionOf("alice", "").ID
	out, err := exec.Command("docker", "exec", "slipway-"+id, "id").Output()
	if got := strings.TrimSpace(string(out)); err != nil || !strings.HasPrefix(got, "uid=41001(alice) gid=100(alice)") || !strings.Contains(got, "47111(higgs)") {
		t.Errorf("in her session: %s, %v", got, err)
	}
	s.startOnly("bob", "", nil)
	if why := s.failed("bob", ""); !strings.Contains(why, "has no line for") || !strings.Contains(why, "users.table") {
		t.Errorf("why bob has no session: %s", why)
	}
	if r := s.as("bob", http.MethodPost, "/jobs/check", map[string]any{"argv": []string{"true"}}); !strings.Contains(string(r.body), "has no line for") {
		t.Errorf("a job of bob's: %d %s", r.status, r.body)
	}

	write("alice 41002 100\nbob 41001 100\n")
	s.kill()
	s.serve()
	s.answers("alice", "") // she has the number that she has begun with
	if me := string(s.as("alice", http.MethodGet, "/whoami", nil).body); !strings.Contains(me, "41002 now") {
		t.Errorf("who she is: %s", me)
	}
	s.startOnly("bob", "", nil)
	if why := s.failed("bob", ""); !strings.Contains(why, "which is that of alice") {
		t.Errorf("why bob has no session with alice's number: %s", why)
	}
	if r := s.as(hubtest.Admin, http.MethodDelete, "/accounts/alice", nil); r.status != http.StatusConflict {
		t.Errorf("her number is forgotten while she has a session: %d %s", r.status, r.body)
	}
	s.stop("alice", "")
	s.startOnly("alice", "", nil)
	if why := s.failed("alice", ""); !strings.Contains(why, "accounts release alice") {
		t.Errorf("why alice has no session: %s", why)
	}
	if r := s.as("alice", http.MethodDelete, "/sessions/"+id, nil); r.status != http.StatusNoContent {
		t.Fatalf("she discards her session: %d %s", r.status, r.body)
	}
	write("alice 41001 100\n")
	if me := string(s.as("alice", http.MethodGet, "/whoami", nil).body); !strings.Contains(me, `"uid":41001`) {
		t.Errorf("with her number back: %s", me)
	}
}
