package e2e

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/internal/testenv/oidcissuer"
	"slipway/spawner/htcondor/condortest"
)

// farSite is a site whose sessions and jobs run on the workers of a real pool, which reach it by TLS alone.
type farSite struct {
	*site
	pool   *condortest.Pool
	found  *found
	issuer *oidcissuer.Issuer
}

// found is what tests leave to those after them.
type found struct {
	digest string // of what was frozen out of alice's session
	lab    notebook
}

// farUsers have accounts in the pool, in the order in which the service first sees them.
var farUsers = []string{"alice", "lily", "mona"}

// farWorkers give alice's workloads and lily's a machine each, so that what is done to one does not meet the other. The
// third is mona's, whose worker is emptied, and takes jobs of everybody, until it is open to all (see apart). The
// second, which is cut off, does not wait long for what it is to end. Nothing opens a connection to them.
var farWorkers = []condortest.Worker{
	{Name: "node1", Config: `START = TARGET.SlipwayUser == "alice"` + "\n"},
	{Name: "node2", Config: `START = TARGET.SlipwayUser == "lily"` + "\nMACHINE_MAX_VACATE_TIME = 2\nKILLING_TIMEOUT = 2\n"},
	{Name: "node3", Config: `START = TARGET.SlipwayKind == "job" || TARGET.SlipwayUser == "mona"` + "\n"},
}

// reserveLast has the pool give away the third worker last.
const reserveLast = `NEGOTIATOR_PRE_JOB_RANK = ifThenElse(MY.Machine == "node3.slipway.test", 0, 1)` + "\n"

// partition is for how long a worker is cut off while nothing is to be lost by it.
func partition(t testing.TB) time.Duration {
	text := cmp.Or(os.Getenv("SLIPWAY_E2E_PARTITION"), "5s")
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SLIPWAY_E2E_PARTITION: %v", err)
	}
	return d
}

func newFarSite(t *testing.T) *farSite {
	testenv.Need(t, testenv.Root, testenv.Docker, testenv.Notebook, testenv.HTCondor)
	program, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	pool := condortest.Start(t, condortest.Options{CPUs: -1, Workers: farWorkers, Config: reserveLast})
	s := &farSite{site: &site{t: t, dir: pool.TempDir(t), program: program}, pool: pool, found: &found{}, issuer: oidcissuer.New(t)}
	s.issuer.Life(12 * time.Second)
	for i, user := range farUsers {
		pool.AddUser(t, user, 20000+i)
	}
	s.bin()
	s.hub = httptest.NewServer(http.HandlerFunc(farHub))
	t.Cleanup(s.hub.Close)
	s.configure()
	t.Cleanup(s.kill) // also when clear gives up
	s.haveBases(1)
	s.serve()
	t.Cleanup(s.clear)
	for _, user := range farUsers {
		s.invite(user)
	}
	return s
}

// invite asks for a user's first session, and waits until she has a number: they are given in that order.
func (s *farSite) invite(user string) {
	s.t.Helper()
	ask := func(user string) reply { return s.ask(user, "one") }
	if user == "lily" {
		ask = s.askLab
	}
	if r := ask(user); r.status != http.StatusAccepted {
		s.t.Fatalf("start for %s: %d %s", user, r.status, r.body)
	}
	s.eventually(user+" has a number", func() bool {
		return bytes.Contains(s.call("root", http.MethodGet, "/api/v1/accounts", nil).body, []byte(`"`+user+`"`))
	})
}

// of is the same site for one of several tests at a time, which leave the service alone.
func (s *farSite) of(t *testing.T) *farSite {
	own, theirs := *s, *s.site
	own.site, theirs.t = &theirs, t
	s.explained(t)
	return &own
}

// as has the tests that follow report to t.
func (s *farSite) as(t *testing.T) {
	s.reportTo(t)
	s.explained(t)
}

// explained shows what the failure of a test can be explained by.
func (s *farSite) explained(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, kind := range []string{"sessions", "jobs"} {
			t.Logf("%s: %s", kind, s.call("root", http.MethodGet, "/api/v1/"+kind, nil).body)
		}
		testenv.ShowLog(t, "the service's log", filepath.Join(s.dir, "serve.log"))
		s.pool.Tell(t)
	})
}

// bin has HTCondor's commands as the service runs them. While there is a file hang.NAME, the command NAME does its work
// and does not end.
func (s *farSite) bin() {
	s.t.Helper()
	all, err := os.ReadDir(s.pool.Bin)
	if err != nil {
		s.t.Fatal(err)
	}
	dir := filepath.Join(s.dir, "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	for _, command := range all {
		name := command.Name()
		if name != "condor_submit" && name != "condor_rm" {
			err = os.Symlink(filepath.Join(s.pool.Bin, name), filepath.Join(dir, name))
		} else {
			err = os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, hanging, filepath.Join(s.pool.Bin, name), filepath.Join(s.dir, "hang."+name)), 0o755)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

const hanging = `#!/bin/sh
%[1]s "$@"
code=$?
[ ! -e %[2]s ] || echo done >%[2]s
while [ -e %[2]s ]; do sleep .1; done
exit $code
`

// killedIn kills the service when a command of HTCondor's, to which something leads, has done its work and has not
// told, and starts it again.
func (s *farSite) killedIn(command string, leads func()) {
	s.t.Helper()
	file := filepath.Join(s.dir, "hang."+command)
	s.write("hang."+command, "")
	s.t.Cleanup(func() { _ = os.Remove(file) }) // it is there when leads has failed
	leads()
	s.eventually(command+" has done its work", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && len(text) > 0
	})
	s.kill()
	if err := os.Remove(file); err != nil {
		s.t.Fatal(err)
	}
	s.serve()
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
	instance := testenv.Instance("far", s.dir)
	testenv.DropInstance(s.t, instance)
	s.write("client.secret", oidcissuer.ClientSecret)
	s.write("slipway.yaml", fmt.Sprintf(`
listen: %[1]s
tls: {cert: %[2]s/cert.pem, key: %[2]s/key.pem}
uplink: {url: "https://%[1]s", ca_file: %[2]s/ca.pem}
data_dir: %[2]s/data
instance: %[5]q
hubs:
  - {name: main, api_url: %[3]s/hub/api, service: slipway, spawner_token_file: %[2]s/spawner.token, admin_users: [root]}
users: {uids: 20000-20999, gid: 100, homes: %[2]s/homes}
images:
  - {name: notebook, display_name: Notebook, ref: %[4]q}
profiles:
  - {name: near, display_name: Near, kind: lab, images: [notebook], cpus: 0.5, memory: 512M}
  - {name: far, display_name: Far, kind: lab, images: [notebook], cpus: 1, max_cpus: 2, memory: 512M, max_memory: 1G, default: true, backend: htcondor}
jobs: {max_cpus: 2, max_memory: 2G, default_cpus: 1, default_memory: 256M, default_time: 5m, max_time: 1h}
docker: {max_total_cpus: 2, max_total_memory: 2G}
local: {max_jobs: 2}
htcondor: {enabled: true, bin: %[2]s/bin, poll_interval: 1s, job_lease_duration: %[6]s, cache: /var/tmp/slipway-images}
%[7]s
%[8]s
`, address, s.dir, s.hub.URL, testenv.NotebookImage, instance, partition(s.t)+15*time.Second, issuing(s.issuer, s.dir+"/client.secret"), farKernels))
}

// certify makes an authority of the site's own and a certificate for an address, and gives who trusts it.
func (s *site) certify(address string) *http.Client {
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
