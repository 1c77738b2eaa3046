package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/spawner/slurm/slurmtest"
)

// slurmSite is a site whose sessions and jobs run on the node of a real Slurm cluster, which reaches it by TLS alone.
type slurmSite struct {
	*site
	cluster *slurmtest.Cluster
}

// clusterUID is the number of the site's first user, who has an account on the cluster.
const clusterUID = 20000

func newSlurmSite(t *testing.T) *slurmSite {
	testenv.Need(t, testenv.Root, testenv.Docker, testenv.Notebook, testenv.Slurm)
	program, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	cluster := slurmtest.Start(t)
	s := &slurmSite{site: &site{t: t, dir: cluster.TempDir(t), program: program}, cluster: cluster}
	cluster.AddUser(t, "alice", clusterUID)
	s.hub = httptest.NewServer(http.HandlerFunc(fakeHub))
	t.Cleanup(s.hub.Close)
	s.configure()
	t.Cleanup(s.kill) // also when clear gives up
	s.haveBases(1)
	s.serve()
	t.Cleanup(s.clear)
	return s
}

func (s *slurmSite) configure() {
	s.t.Helper()
	host := s.cluster.Address(s.t)
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		s.t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s.url = "https://" + address
	s.client = s.certify(host)
	s.write("spawner.token", spawnerToken)
	instance := testenv.Instance("slurm", s.dir)
	testenv.DropInstance(s.t, instance)
	s.write("slipway.yaml", fmt.Sprintf(`
listen: %[1]s
tls: {cert: %[2]s/cert.pem, key: %[2]s/key.pem}
uplink: {url: "https://%[1]s", ca_file: %[2]s/ca.pem}
data_dir: %[2]s/data
instance: %[3]q
hubs:
  - {name: main, api_url: %[4]s/hub/api, service: slipway, spawner_token_file: %[2]s/spawner.token, admin_users: [root]}
users: {uids: %[5]d-20999, gid: 100, homes: %[2]s/homes}
images:
  - {name: notebook, display_name: Notebook, ref: %[6]q}
profiles:
  - {name: cluster, display_name: Cluster, kind: lab, images: [notebook], cpus: 1, max_cpus: 2, memory: 512M, max_memory: 1G, default: true, backend: slurm, first_connect: 0s}
jobs: {backend: slurm, max_cpus: 2, max_memory: 2G, default_cpus: 1, default_memory: 256M, default_time: 5m, max_time: 1h}
docker: {max_total_cpus: 2, max_total_memory: 2G}
local: {max_jobs: 2}
slurm: {enabled: true, bin: %[7]s, dir: %[2]s/jobs, poll_interval: 1s}
`, address, s.dir, instance, s.hub.URL, clusterUID, testenv.NotebookImage, s.cluster.Bin))
}

// scan submits one in an environment, and returns its points.
func (s *slurmSite) scan(digest string) []string {
	s.t.Helper()
	r := s.call("alice", http.MethodPost, "/api/v1/jobs", map[string]any{
		"name": "scan", "environment": digest, "argv": []string{"sh", "-c", `python3 /opt/env/bin/mine.py; hostname; echo "$K" > answer`},
		"points": []map[string]any{{"parameters": map[string]string{"K": "0"}}, {"parameters": map[string]string{"K": "1"}}},
	})
	var submitted struct{ Jobs []struct{ ID string } }
	if err := json.Unmarshal(r.body, &submitted); err != nil || len(submitted.Jobs) != 2 {
		s.t.Fatalf("submit: %d %s", r.status, r.body)
	}
	return []string{submitted.Jobs[0].ID, submitted.Jobs[1].ID}
}

// scanned looks how the points of a scan have ended.
func (s *slurmSite) scanned(points []string) {
	s.t.Helper()
	for i, id := range points {
		if end := s.ended("alice", id); end["state"] != "done" || fmt.Sprint(end["host"]) != "slurm" {
			s.t.Errorf("point %d: %v", i, end)
		}
		if log := string(s.call("alice", http.MethodGet, "/api/v1/jobs/"+id+"/log", nil).body); log != "from the change\nslurm\n" {
			s.t.Errorf("point %d says %q", i, log)
		}
		if got := s.call("alice", http.MethodGet, "/api/v1/jobs/"+id+"/files/answer", nil); string(got.body) != fmt.Sprintf("%d\n", i) {
			s.t.Errorf("point %d left %d %q", i, got.status, got.body)
		}
	}
	if tasks := s.cluster.Admin(s.t, "squeue", "--array", "--noheader", "--states=all", "--format=%K"); !strings.Contains(tasks, "0") || !strings.Contains(tasks, "1") {
		s.t.Errorf("the scan is no array: %s", strings.Fields(tasks))
	}
}

// TestSlurm: a session on a node of a Slurm cluster begins, is frozen, ends and goes on from what it had changed; a scan
// runs as an array in what was frozen. What they write lies on the node until it comes back, and nothing of it stays there.
func TestSlurm(t *testing.T) {
	t.Parallel()
	s := newSlurmSite(t)
	id := s.session("alice", "one")
	if who := s.in("alice", "id -u; whoami; hostname"); who != "20000\nalice\nslurm" {
		t.Errorf("the session runs as\n%s", who)
	}
	// of the day that its partition gives, less what its end needs; of the test's cluster nobody can be idle or old before
	var told struct{ Stops struct{ At time.Time } }
	if r := s.call("alice", http.MethodGet, "/api/v1/sessions/"+id, nil); json.Unmarshal(r.body, &told) != nil ||
		!told.Stops.At.After(time.Now().Add(20*time.Hour)) || told.Stops.At.After(time.Now().Add(24*time.Hour)) {
		t.Errorf("of its end is told: %s", r.body)
	}
	s.in("alice", "echo 'print(\"from the change\")' > /opt/env/bin/mine.py && rm -r /opt/env/share/man; echo draft > ~/thesis; true")
	if scratch := s.cluster.Admin(t, "sh", "-c", "ls -d /var/tmp/slipway-scratch-20000/run-*/overlay/upper/opt/env/bin/mine.py"); scratch == "" {
		t.Error("what the session changes does not lie on the node's own disk")
	}
	frozen, failure := s.freeze("alice", id)
	if failure != "" {
		t.Fatal("freeze: ", failure)
	}
	scan := s.scan(frozen["digest"].(string))
	if r := s.call("hub", http.MethodPost, "/api/v1/sessions/"+id+"/stop", nil); r.status != http.StatusOK {
		t.Fatalf("stop: %d %s", r.status, r.body)
	}
	s.eventually(id+" has stopped", func() bool { return s.phase("root", "sessions", id) == "stopped" })
	if again := s.session("alice", "two"); again != id {
		t.Errorf("started again as %s, want %s", again, id)
	}
	if got := s.in("alice", "cat ~/thesis; python3 /opt/env/bin/mine.py"); got != "draft\nfrom the change" {
		t.Errorf("after stop and start: %q", got)
	}
	s.scanned(scan)
	s.discard()
	if left := s.cluster.Admin(t, "ls", "-A", "/var/tmp/slipway-scratch-20000"); left != "" {
		t.Errorf("on the node there stays %s", strings.Fields(left))
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "jobs", "?-*")); len(left) > 0 {
		t.Errorf("of sandboxes there stays %s", left)
	}
}
