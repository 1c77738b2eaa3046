package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/spawner/htcondor/condortest"
)

// farSite is a site whose sessions and jobs run on the workers of a real pool, which reach it by TLS alone.
type farSite struct {
	*site
	pool   *condortest.Pool
	digest string // of what was frozen out of a session
}

// The workers of a farSite's pool. Nothing opens a connection to them.
var farWorkers = []string{"node1", "node2"}

func newFarSite(t *testing.T) *farSite {
	testenv.Need(t, testenv.Root, testenv.Docker, testenv.Notebook, testenv.Mksquashfs, testenv.HTCondor)
	program, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	options := condortest.Options{CPUs: -1}
	for _, name := range farWorkers {
		options.Workers = append(options.Workers, condortest.Worker{Name: name})
	}
	pool := condortest.Start(t, options)
	pool.AddUser(t, "alice", 20000)
	s := &farSite{site: &site{t: t, dir: pool.TempDir(t), program: program}, pool: pool}
	s.hub = httptest.NewServer(http.HandlerFunc(fakeHub))
	t.Cleanup(s.hub.Close)
	s.configure()
	t.Cleanup(s.kill) // also when clear gives up
	s.serve()
	t.Cleanup(s.clear)
	return s
}

func (s *farSite) configure() {
	l, err := net.Listen("tcp", net.JoinHostPort(s.pool.Address, "0"))
	if err != nil {
		s.t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s.url = "https://" + address
	s.client = s.certify(s.pool.Address)
	s.write("spawner.token", spawnerToken)
	s.write("slipway.yaml", fmt.Sprintf(`
listen: %[1]s
tls: {cert: %[2]s/cert.pem, key: %[2]s/key.pem}
uplink: {url: "https://%[1]s", ca_file: %[2]s/ca.pem}
data_dir: %[2]s/data
hubs:
  - {name: main, api_url: %[3]s/hub/api, service: slipway, spawner_token_file: %[2]s/spawner.token, admins: [root]}
users: {uids: 20000-20999, gid: 100, homes: %[2]s/homes}
images:
  - {name: notebook, title: Notebook, ref: %[4]q}
profiles:
  - {name: near, title: Near, kind: lab, images: [notebook], cpus: 0.5, memory: 512M}
  - {name: far, title: Far, kind: lab, images: [notebook], cpus: 1, max_cpus: 2, memory: 512M, max_memory: 1G, default: true, backend: htcondor}
jobs: {max_cpus: 2, max_memory: 2G, default_cpus: 1, default_memory: 256M, default_time: 5m, max_time: 1h}
docker: {cpus: 2, memory: 2G, instance: %[5]q}
local: {at_once: 2, cgroup: slipway-e2e-far}
htcondor: {on: true, bin: %[6]s, every: 1s, lease: 20s, cache: /var/tmp/slipway-images}
`, address, s.dir, s.hub.URL, testenv.NotebookImage, "far-"+filepath.Base(s.dir), s.pool.Bin))
}

// certify makes an authority of the site's own and a certificate for an address, and gives who trusts it.
func (s *farSite) certify(address string) *http.Client {
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the site"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "the service"}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.ParseIP(address)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			s.t.Fatal(err)
		}
		return k
	}
	authorityKey, leafKey := key(), key()
	sign := func(of *x509.Certificate, public any) []byte {
		der, err := x509.CreateCertificate(rand.Reader, of, authority, public, authorityKey)
		if err != nil {
			s.t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	private, err := x509.MarshalECPrivateKey(leafKey)
	if err != nil {
		s.t.Fatal(err)
	}
	ca := sign(authority, authorityKey.Public())
	s.write("ca.pem", string(ca))
	s.write("cert.pem", string(sign(leaf, leafKey.Public())))
	s.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
}

// answers waits until the app of a user's session answers, and gives its process number.
func (s *farSite) answers(user string) any {
	s.t.Helper()
	var pid any
	s.eventually("the session of "+user+" answers", 60*time.Second, func() bool {
		r := s.call("", http.MethodGet, "/user/"+user+"/api", nil)
		if r.status != http.StatusOK {
			return false
		}
		pid = r.object(s.t)["pid"]
		return true
	})
	return pid
}

// show gives what a user sees of a session or job.
func (s *farSite) show(user, kind, id string) map[string]any {
	s.t.Helper()
	return s.call(user, http.MethodGet, "/api/v1/"+kind+"/"+id, nil).object(s.t)
}

// stop stops a session and waits for its end.
func (s *farSite) stop(id string) {
	s.t.Helper()
	if r := s.call("hub", http.MethodPost, "/api/v1/sessions/"+id+"/stop", nil); r.status != http.StatusOK {
		s.t.Fatalf("stop: %d %s", r.status, r.body)
	}
	s.eventually(id+" has stopped", 90*time.Second, func() bool { return s.phase("root", "sessions", id) == "stopped" })
}

// queued gives the jobs that the pool has, held and ended ones too.
func (s *farSite) queued() []string {
	s.t.Helper()
	return strings.Fields(s.pool.Admin(s.t, "condor_q", "-allusers", "-af", "ClusterId"))
}

// TestHTCondor walks the path of the service with sessions and jobs on the workers of a real pool.
func TestHTCondor(t *testing.T) {
	s := newFarSite(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{{"session", s.aSession}, {"jobs", s.jobs}, {"faults", s.faults}} {
		if !t.Run(part.name, part.run) {
			return
		}
	}
	s.t = t
	if left := s.queued(); len(left) > 0 {
		t.Errorf("the pool still has the jobs %v", left)
	}
}

// aSession starts one, changes it, freezes it, stops it and starts it again.
func (s *farSite) aSession(t *testing.T) {
	s.t = t
	id := s.session("alice", "one")
	if host := fmt.Sprint(s.show("alice", "sessions", id)["host"]); !strings.Contains(host, "node") {
		t.Errorf("it runs on %q", host)
	}
	if who := s.in("alice", "id -u; whoami; hostname"); !strings.HasPrefix(who, "20000\nalice\nnode") {
		t.Errorf("the session runs as\n%s", who)
	}
	s.in("alice", "echo 'print(\"from the change\")' > /opt/env/bin/mine.py && rm -r /opt/env/share/man; true")
	if listed := s.in("alice", "slipway sessions --json"); !strings.Contains(listed, id) {
		t.Errorf("inside, without a token: %s", listed)
	}
	frozen, failure := s.freeze("alice", id)
	if failure != "" {
		t.Fatal("freeze: ", failure)
	}
	s.digest = frozen["digest"].(string)
	job := s.ended("alice", s.submit("alice", s.digest, "python3 /opt/env/bin/mine.py; hostname", map[string]any{"backend": "htcondor"}))
	if log := s.log("alice", job["id"].(string)); !strings.HasPrefix(log, "from the change\nnode") {
		t.Errorf("a job in what was frozen says %q: %v", log, job)
	}
	s.stop(id)
	if envs := s.list("alice", "environments"); len(envs) != 1 {
		t.Errorf("environments: %v", envs)
	}
	if second := s.session("alice", "two"); second != id {
		t.Errorf("started again as %s, want %s", second, id)
	}
	if got := s.in("alice", "python3 /opt/env/bin/mine.py"); got != "from the change" {
		t.Errorf("after stop and start: %q", got)
	}
	if gone := s.call("hub", http.MethodDelete, "/api/v1/sessions/"+id, nil); gone.status >= 300 {
		t.Errorf("discard: %d %s", gone.status, gone.body)
	}
}

func (s *farSite) log(user, job string) string {
	return string(s.call(user, http.MethodGet, "/api/v1/jobs/"+job+"/log", nil).body)
}

// jobs submits a scan, and kills the service behind it: each point runs once. A job that runs is cancelled.
func (s *farSite) jobs(t *testing.T) {
	s.t = t
	const points = 4
	var list []map[string]any
	for i := range points {
		list = append(list, map[string]any{"parameters": map[string]string{"K": fmt.Sprint(i * i)}})
	}
	r := s.call("alice", http.MethodPost, "/api/v1/jobs", map[string]any{
		"name": "scan", "environment": s.digest, "backend": "htcondor", "points": list, "request_id": "once",
		"argv": []string{"sh", "-c", `echo "$SLIPWAY_POINT $K"; echo "$K" > answer; test "$K" != 4`},
	})
	if r.status != http.StatusAccepted {
		t.Fatalf("submit: %d %s", r.status, r.body)
	}
	s.kill()
	s.serve()
	var submitted struct{ Jobs []struct{ ID string } }
	if err := json.Unmarshal(r.body, &submitted); err != nil || len(submitted.Jobs) != points {
		t.Fatalf("%d jobs, %v: %s", len(submitted.Jobs), err, r.body)
	}
	for i, point := range submitted.Jobs {
		job := s.ended("alice", point.ID)
		if want := map[bool]string{true: "failed", false: "done"}[i == 2]; job["state"] != want {
			t.Errorf("point %d is %v, want %s: %v", i, job["state"], want, job["outcome"])
		}
		if got, want := s.log("alice", point.ID), fmt.Sprintf("%d %d\n", i, i*i); got != want {
			t.Errorf("point %d says %q, want %q", i, got, want)
		}
		if got := s.call("alice", http.MethodGet, "/api/v1/jobs/"+point.ID+"/files/answer", nil); string(got.body) != fmt.Sprintf("%d\n", i*i) {
			t.Errorf("point %d left %d %q", i, got.status, got.body)
		}
		if n := s.submissions(point.ID); n != 1 {
			t.Errorf("point %d was submitted %d times", i, n)
		}
	}
	endless := s.submit("alice", s.digest, "sleep 1000", map[string]any{"backend": "htcondor"})
	s.eventually("it runs", 60*time.Second, func() bool { return s.phase("alice", "jobs", endless) == "running" })
	s.call("alice", http.MethodPost, "/api/v1/jobs/"+endless+"/cancel", nil)
	if job := s.ended("alice", endless); job["state"] != "canceled" {
		t.Errorf("a cancelled job is %v: %v", job["state"], job["outcome"])
	}
	const never = "1000000000000"
	if refused := s.call("alice", http.MethodPost, "/api/v1/jobs", map[string]any{
		"name": "huge", "environment": s.digest, "backend": "htcondor", "argv": []string{"true"}, "memory": never,
	}); refused.status < 400 || refused.status >= 500 {
		t.Errorf("more memory than any worker has: %d %s", refused.status, refused.body)
	}
}

// submissions counts the jobs that the pool ever had of a workload.
func (s *farSite) submissions(id string) int {
	s.t.Helper()
	n := 0
	for _, command := range [][]string{{"condor_q", "-allusers"}, {"condor_history"}} {
		argv := append(command[1:], "-constraint", fmt.Sprintf("SlipwayId == %q", id), "-af", "ClusterId")
		n += len(strings.Fields(s.pool.Admin(s.t, command[0], argv...)))
	}
	return n
}

// faults kills the service at several moments of a start and beside the running session, cuts the session's worker off, and kills it.
func (s *farSite) faults(t *testing.T) {
	s.t = t
	id := s.ask("alice", "one").object(t)["id"].(string)
	for _, delay := range []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond} {
		<-time.After(delay)
		s.kill()
		s.serve()
		if again := s.ask("alice", "one"); again.status != http.StatusAccepted || again.object(t)["id"] != id {
			t.Fatalf("after %s: %d %s, was %s", delay, again.status, again.body, id)
		}
	}
	s.running(id)
	pid := s.answers("alice")
	if n := s.submissions(id); n != 1 {
		t.Errorf("it was submitted %d times", n)
	}
	s.kill()
	s.serve()
	if got := s.answers("alice"); got != pid {
		t.Errorf("beside a service that was killed the app was process %v and is %v", pid, got)
	}
	node := s.node(id)
	s.pool.Cut(t, node)
	<-time.After(3 * time.Second)
	s.pool.Heal(t, node)
	if got := s.answers("alice"); got != pid {
		t.Errorf("after its worker was cut off the app was process %v and is %v", pid, got)
	}
	s.in("alice", "echo lost > /opt/env/lost")
	ready := lastEvent(s.told("alice", id, "0"))
	s.pool.Kill(t, node)
	s.eventually("it runs elsewhere", 120*time.Second, func() bool {
		return s.phase("alice", "sessions", id) == "running" && s.node(id) != node
	})
	if got := s.in("alice", "ls /opt/env/lost || true"); got != "" {
		t.Errorf("it went on with what was never kept: %s", got)
	}
	if events := s.told("alice", id, ready); !strings.Contains(events, "evicted from "+node) {
		t.Errorf("nobody is told why: %s", events)
	}
	s.call("hub", http.MethodDelete, "/api/v1/sessions/"+id, nil)
	s.eventually("nothing of it is left in the pool", 60*time.Second, func() bool { return len(s.queued()) == 0 })
}

// told gives the events of a session after one of them, up to the next that is final.
func (s *farSite) told(user, id, after string) string {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+"/api/v1/sessions/"+id+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer token-of-"+user)
	r.Header.Set("Last-Event-ID", after)
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Error(err)
	}
	return string(text)
}

// lastEvent gives the name of the last event of a stream.
func lastEvent(events string) string {
	_, id, _ := strings.Cut(events[strings.LastIndex(events, "\nid: ")+1:], "id: ")
	id, _, _ = strings.Cut(id, "\n")
	return id
}

// node gives the worker on which a session runs.
func (s *farSite) node(id string) string {
	s.t.Helper()
	name, _, _ := strings.Cut(fmt.Sprint(s.show("alice", "sessions", id)["host"]), ".")
	return name
}
