package environments

import (
	"context"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	memory "github.com/google/go-containerregistry/pkg/registry"

	"slipway/hubapi"
	"slipway/images/registry/registrytest"
	"slipway/internal/errs"
	"slipway/spawner"
)

// newShipperOf moves what a store has, over plain HTTP of this host.
func (d *blobStoreOf) newShipper() *Shipper {
	d.t.Helper()
	p, err := d.environments().NewShipper()
	d.must(err)
	p.transport, p.plain = http.DefaultTransport, func(string) bool { return true }
	return p
}

// trusts makes one store believe another's statements.
func (d *blobStoreOf) trusts(other *blobStoreOf) {
	d.t.Helper()
	list, err := other.keys.List()
	d.must(err)
	_, err = d.keys.Trust("partner", list[0].PEM())
	d.must(err)
}

func userOf(name string) spawner.Caller { return spawner.Caller{User: spawner.User(name), Hub: "main"} }

func quiet(hubapi.Progress) {}

// writable is a registry that takes what is pushed, and counts it.
func writable(t *testing.T) (host string, received *atomic.Int64) {
	t.Helper()
	received = &atomic.Int64{}
	next := memory.New(memory.Logger(log.New(io.Discard, "", 0)))
	return registrytest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = counting{r.Body, received}
		next.ServeHTTP(w, r)
	})), received
}

type counting struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// TestFromSiteToSite: what one site pushes another one pulls, believes and runs.
func TestFromSiteToSite(t *testing.T) {
	there, here := newBlobStore(t), newBlobStore(t)
	here.trusts(there)
	host, received := writable(t)
	from, to := there.newShipper(), here.newShipper()
	first, second := there.freeze("alice", "ana", "v1", "one"), there.freeze("alice", "ana", "v2", strings.Repeat("two", 1000))
	stages := map[string]bool{}
	tell := func(p hubapi.Progress) { stages[p.Stage] = true }
	done, err := from.Push(t.Context(), userOf("alice"), "ana:v1", hubapi.PushRequest{To: "oci://" + host + "/alice/ana:v1", SIF: true}, tell)
	if err != nil || done.Environment != first.Digest || !stages["checking"] || !stages["pushing"] {
		t.Fatalf("%+v after %v, %v", done, stages, err)
	}
	received.Store(0)
	_, err = from.Push(t.Context(), userOf("alice"), "ana:v2", hubapi.PushRequest{To: host + "/alice/ana:v2"}, quiet)
	if own := there.document(second.Digest).Tail.Size + there.document(second.Digest).Manifest.Size; err != nil || received.Load() > own+8<<10 {
		t.Errorf("%d bytes were sent for %d, %v", received.Load(), own, err)
	}
	got, err := to.Pull(t.Context(), userOf("bob"), hubapi.PullRequest{From: "oci://" + host + "/alice/ana:v1", Name: "theirs", Tag: "t"}, tell)
	if err != nil || got.Digest != first.Digest || got.Owner != "bob" || got.Name != "theirs" || got.Tag != "t" || !got.Mine {
		t.Fatalf("%+v, %v", got, err)
	}
	stated, err := here.library.Statements.List(first.Digest)
	if here.must(err); len(stated) != 1 || stated[0].Key.Site != "partner" || stated[0].User != "alice" {
		t.Errorf("stated %+v", stated)
	}
	here.must(here.nothingUnfinished())
	if _, err := to.Pull(t.Context(), userOf("bob"), hubapi.PullRequest{From: host + "/alice/ana@" + second.Digest}, quiet); err != nil {
		t.Errorf("by digest: %v", err)
	}
}

func (d *blobStoreOf) nothingUnfinished() error {
	left, err := filepath.Glob(filepath.Join(d.dir, "pulls", "*", "*"))
	if err == nil && len(left) > 0 {
		d.t.Errorf("left of pulls: %q", left)
	}
	return err
}

// TestPullFromAnotherService: its own registry, with a token of its Hub.
func TestPullFromAnotherService(t *testing.T) {
	there, here := newBlobStore(t), newBlobStore(t)
	e := there.freeze("alice", "ana", "v1", "one")
	there.settle(e)
	host := registrytest.Serve(t, there.handler())
	to := here.newShipper()
	pull := func(password string, unsigned bool) (hubapi.Environment, error) {
		r := hubapi.PullRequest{From: host + "/alice/ana:v1", Unsigned: unsigned}
		if password != "" {
			r.Login = hubapi.RegistryLogin{Username: "alice", Password: password}
		}
		return to.Pull(t.Context(), userOf("bob"), r, quiet)
	}
	for password, want := range map[string]errs.Kind{"": errs.Forbidden, "guessed": errs.Forbidden, "bob-token": errs.NotFound} {
		if _, err := pull(password, true); !errs.Is(err, want) {
			t.Errorf("with %q: %v", password, err)
		}
	}
	if _, err := pull("alice-token", false); !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "--unsigned") {
		t.Errorf("nobody here trusts that site: %v", err)
	}
	if bases, err := os.ReadDir(filepath.Join(here.dir, "library", "bases")); err != nil || len(bases) > 0 {
		t.Errorf("after the refusals there is %v, %v", bases, err)
	}
	here.must(here.nothingUnfinished())
	got, err := pull("alice-token", true)
	if err != nil || got.Digest != e.Digest {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhoMayNotShip(t *testing.T) {
	d := newBlobStore(t)
	d.freeze("alice", "ana", "v1", "one")
	s := d.newShipper()
	to := hubapi.PushRequest{To: "registry.example/x/y:1"}
	for name, tc := range map[string]struct {
		c    spawner.Caller
		ref  string
		to   hubapi.PushRequest
		kind errs.Kind
	}{
		"another user":     {userOf("bob"), "alice/ana:v1", to, errs.NotFound},
		"a job":            {spawner.Caller{User: "alice", Hub: "main", Workload: "j-1"}, "ana:v1", to, errs.Forbidden},
		"a Spawner":        {spawner.Caller{Hub: "main", Spawner: true}, "ana:v1", to, errs.Forbidden},
		"nowhere":          {userOf("alice"), "ana:v1", hubapi.PushRequest{}, errs.Invalid},
		"a path":           {userOf("alice"), "ana:v1", hubapi.PushRequest{To: "../../etc/passwd"}, errs.Invalid},
		"a digest":         {userOf("alice"), "ana:v1", hubapi.PushRequest{To: "registry.example/x/y@sha256:" + strings.Repeat("0", 64)}, errs.Invalid},
		"a host in a path": {userOf("alice"), "ana:v1", hubapi.PushRequest{To: "registry.example/x/../y:1"}, errs.Invalid},
	} {
		if _, err := s.Push(t.Context(), tc.c, tc.ref, tc.to, quiet); !errs.Is(err, tc.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Pull(t.Context(), spawner.Caller{User: "alice", Workload: "j-1"}, hubapi.PullRequest{From: "registry.example/x/y:1"}, quiet); !errs.Is(err, errs.Forbidden) {
		t.Errorf("a job pulls: %v", err)
	}
}

// TestNobodyReachesTheHostItself: the service must not be led to what listens on its own loopback.
func TestNobodyReachesTheHostItself(t *testing.T) {
	d := newBlobStore(t)
	host := registrytest.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	s := d.newShipper()
	s.transport = newOutward()
	_, port, _ := strings.Cut(host, ":")
	for _, name := range []string{host, "localhost:" + port, "[::ffff:127.0.0.1]:" + port, "0.0.0.0:" + port} {
		if _, err := s.Pull(t.Context(), userOf("alice"), hubapi.PullRequest{From: name + "/x/y:1"}, quiet); !errs.Is(err, errs.Forbidden) && !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for address, want := range map[string]errs.Kind{"127.0.0.1:443": errs.Forbidden, "[::ffff:127.0.0.1]:443": errs.Forbidden, "0.0.0.0:443": errs.Forbidden, "169.254.169.254:80": errs.Forbidden, "[fe80::1]:443": errs.Forbidden, "[::1]:1": errs.Forbidden, "10.1.2.3:443": 0} {
		if err := onlyOutward("tcp", address, nil); (err != nil) != (want != 0) || err != nil && !errs.Is(err, want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestNothingIsSaidWithoutTLS: a registry's redirect must not have the service post to what trusts the site's network.
func TestNothingIsSaidWithoutTLS(t *testing.T) {
	r, err := http.NewRequest(http.MethodPost, "http://10.1.2.3:2375/containers/create", io.NopCloser(strings.NewReader("x")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newOutward().RoundTrip(r); !errs.Is(err, errs.Forbidden) {
		t.Errorf("%v", err)
	}
}

// TestOnePullOfAnOwnerAtATime: the second waits, and gives up when nobody waits for it.
func TestOnePullOfAnOwnerAtATime(t *testing.T) {
	var s turns
	done, err := s.wait(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.wait(ended, "alice"); err == nil {
		t.Error("two at a time")
	}
	other, err := s.wait(t.Context(), "bob")
	if err != nil {
		t.Fatal(err)
	}
	other()
	done()
	again, err := s.wait(ended, "alice")
	if err != nil {
		t.Fatal(err)
	}
	again()
	p := &Shipper{dir: t.TempDir()}
	first, err := p.place("alice", "a")
	if err == nil {
		_, err = p.place("alice", "b")
	}
	if _, gone := os.Stat(first); err != nil || gone == nil {
		t.Errorf("what another unfinished pull left is there: %v", err)
	}
}
