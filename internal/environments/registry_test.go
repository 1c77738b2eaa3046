package environments

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/images"
	"slipway/images/apptainer"
	"slipway/images/blob"
	"slipway/images/manifest"
	"slipway/images/oci"
	"slipway/images/records"
	"slipway/images/registry/registrytest"
	"slipway/images/signing"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/internal/testenv"
	"slipway/internal/workloadtoken"
	"slipway/spawner"
)

// blobStoreOf is a library with environments of several users, and what serves it.
type blobStoreOf struct {
	t        *testing.T
	dir      string
	library  *images.Library
	keys     *signing.Keys
	registry *Registry
	jobs     *sync.Map // of spawner.ID to spawner.Workload: servers ask for them beside the test
}

// newBlobStore makes an empty one. Tokens are the users' names with -token behind.
func newBlobStore(t *testing.T) *blobStoreOf {
	t.Helper()
	testenv.Need(t, testenv.Root)
	d := &blobStoreOf{t: t, dir: t.TempDir(), jobs: &sync.Map{}}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	var err error
	d.keys, err = signing.New(signing.Config{Dir: filepath.Join(d.dir, "keys"), Site: "here", Now: time.Now, Log: log})
	d.must(err)
	d.library, err = images.Open(images.Config{Dir: filepath.Join(d.dir, "library"), Keys: d.keys, Logger: log})
	d.must(err)
	t.Cleanup(func() { d.must(d.library.Close()) })
	d.registry = &Registry{
		library: d.library, identify: d.identify,
		principal: func(_ string, user spawner.User) string { return string(user) },
		viewer:    func(_ string, user spawner.User) records.Viewer { return records.Viewer{Owner: string(user)} },
		authority: workloadtoken.NewAuthority(secret.NewBox(), d.workload),
	}
	return d
}

// environments joins the library with no engine at all. All users are in the groups.
func (d *blobStoreOf) environments(groups ...string) *Service {
	d.t.Helper()
	s := &Service{library: d.library, log: slog.New(slog.DiscardHandler), cfg: Config{
		Site: config.Config{DataDir: d.dir}, Principal: d.registry.principal, GroupsOf: func(string, spawner.User) []string { return groups },
	}}
	d.must(s.openPlaces())
	return s
}

// workload finds one of the jobs.
func (d *blobStoreOf) workload(_ context.Context, id spawner.ID) (spawner.Workload, error) {
	if w, ok := d.jobs.Load(id); ok {
		return w.(spawner.Workload), nil
	}
	return spawner.Workload{}, errs.New(errs.NotFound, "no %s", id)
}

func (d *blobStoreOf) must(all ...error) {
	d.t.Helper()
	if err := errors.Join(all...); err != nil {
		d.t.Fatal(err)
	}
}

func (d *blobStoreOf) identify(_ context.Context, token string) (spawner.Caller, error) {
	user, ok := strings.CutSuffix(token, "-token")
	if !ok {
		return spawner.Caller{}, errs.New(errs.Unauthorized, "unknown token")
	}
	return spawner.Caller{User: spawner.User(user), Hub: "main"}, nil
}

// freeze makes an environment with sh, cat and /greeting.
func (d *blobStoreOf) freeze(owner, name, tag, greeting string) records.Environment {
	d.t.Helper()
	return d.freezeFor("", owner, name, tag, greeting)
}

// freezeFor makes one that says of itself that it is for another architecture.
func (d *blobStoreOf) freezeFor(architecture, owner, name, tag, greeting string) records.Environment {
	d.t.Helper()
	testenv.Need(d.t, testenv.Busybox)
	busybox, err := exec.LookPath("busybox")
	d.must(err)
	base, upper := filepath.Join(d.dir, "base"), d.t.TempDir()
	if _, err := os.Stat(base); err != nil {
		data, err := os.ReadFile(busybox)
		d.must(err, os.MkdirAll(filepath.Join(base, "bin"), 0o755), os.MkdirAll(filepath.Join(base, "etc"), 0o755),
			os.WriteFile(filepath.Join(base, "bin/busybox"), data, 0o755), os.Symlink("busybox", filepath.Join(base, "bin/sh")),
			os.Symlink("busybox", filepath.Join(base, "bin/cat")), os.WriteFile(filepath.Join(base, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\n"), 0o644))
	}
	d.must(os.Chmod(upper, 0o755), os.WriteFile(filepath.Join(upper, "greeting"), []byte(greeting), 0o644))
	e, err := d.library.Freeze(d.t.Context(), images.Request{
		Owner: owner, Name: name, Tag: tag, Key: owner + name + tag, Kind: "lab", User: owner,
		Source: images.Source{Layers: []string{base}, Upper: upper, Config: apptainer.ImageConfig{Env: []string{"PATH=/bin"}, Architecture: architecture},
			Base: manifest.Base{Reference: "example/base:1", Digest: "sha256:" + strings.Repeat("1", 64)}},
	})
	d.must(err)
	return e
}

// settle signs an environment.
func (d *blobStoreOf) settle(e records.Environment) {
	d.t.Helper()
	_, err := d.library.About(d.t.Context(), e.Digest)
	d.must(err)
}

func (d *blobStoreOf) share(owner, ref string) {
	d.t.Helper()
	_, err := d.library.Records.SetShare(records.Viewer{Owner: owner}, ref, records.Share{With: records.Public})
	d.must(err)
}

func (d *blobStoreOf) handler() http.Handler {
	return d.registry.Handler(slog.New(slog.NewTextHandler(d.t.Output(), nil)))
}

// ask makes a request with a password.
func (d *blobStoreOf) ask(password, path string) (status int, body []byte) {
	d.t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if password != "" {
		r.SetBasicAuth("whoever", password)
	}
	w := httptest.NewRecorder()
	d.handler().ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

func (d *blobStoreOf) job(id spawner.ID, digest string, phase spawner.Phase) string {
	d.t.Helper()
	w := spawner.Workload{ID: id, Kind: spawner.Job, Phase: phase, Launch: "l1", Spec: spawner.Spec{Environment: digest}}
	d.jobs.Store(id, w)
	token, err := d.registry.authority.ForImage(w)
	d.must(err)
	return token.Reveal()
}

// run returns the credential of the first run of a job, which has been put back in line since as often as moves says.
func (d *blobStoreOf) run(id spawner.ID, digest string, moves int) string {
	d.t.Helper()
	w := spawner.Workload{ID: id, Kind: spawner.Job, Phase: spawner.Running, Launch: "l1", Spec: spawner.Spec{Environment: digest}}
	token, err := d.registry.authority.ForRun(w)
	d.must(err)
	w.Moves = moves
	d.jobs.Store(id, w)
	return token.Reveal()
}

func digitsOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

func TestEachCallerReadsWhatIsHers(t *testing.T) {
	d := newBlobStore(t)
	mine, other, shared := d.freeze("alice", "ana", "v1", "alice's"), d.freeze("bob", "tools", "v1", "bob's"), d.freeze("Bob B.", "x..y", "V1", "for all")
	unnamed := d.freeze("alice", "", "", "without a name")
	for _, e := range []records.Environment{mine, other, shared, unnamed} {
		d.settle(e)
	}
	d.share("Bob B.", shared.Digest)
	const theirs = "x--426f6220422e/x--782e2e79"
	own := d.job("j-1", mine.Digest, spawner.Running)
	ended := d.job("j-2", mine.Digest, spawner.Stopped)
	forged := strings.TrimSuffix(own, own[len(own)-4:]) + "AAAA"
	elsewhere := d.job("j-3", mine.Digest, spawner.Running)
	d.jobs.Store(spawner.ID("j-3"), spawner.Workload{ID: "j-3", Phase: spawner.Running, Spec: spawner.Spec{Environment: other.Digest}})
	gone := d.job("j-4", mine.Digest, spawner.Running)
	d.jobs.Delete(spawner.ID("j-4"))
	runs, ran := d.run("j-5", mine.Digest, 0), d.run("j-6", mine.Digest, 1) // one is in another run by now
	tail := d.document(mine.Digest).Tail.Digest
	bobsTail := d.document(other.Digest).Tail.Digest
	for _, tc := range []struct {
		password, path string
		status         int
	}{
		{"", "/v2/", 401},
		{"guessed", "/v2/", 403},
		{"alice-token", "/v2/", 200},
		{"alice-token", "/v2/alice/ana/manifests/v1", 200},
		{"alice-token", "/v2/alice/ana/manifests/latest", 200},
		{"alice-token", "/v2/alice/ana/manifests/" + mine.Digest, 200},
		{"alice-token", "/v2/alice/ana/blobs/" + tail, 200},
		{"alice-token", "/v2/alice/ana/manifests/v2", 404},
		{"alice-token", "/v2/alice/other/manifests/v1", 404},
		{"alice-token", "/v2/alice/other/blobs/" + tail, 404},
		{"alice-token", "/sif/" + unnamed.Digest, 200},
		{"alice-token", "/v2/environment/manifests/" + digitsOf(unnamed.Digest), 200},
		{"alice-token", "/v2/bob/tools/manifests/v1", 404},
		{"alice-token", "/v2/bob/tools/manifests/" + other.Digest, 404},
		{"alice-token", "/v2/alice/ana/manifests/" + other.Digest, 404},
		{"alice-token", "/v2/alice/ana/blobs/" + bobsTail, 404},
		{"alice-token", "/v2/environment/manifests/" + digitsOf(other.Digest), 404},
		{"alice-token", "/sif/" + other.Digest, 404},
		{"alice-token", "/sif/bob/tools/v1.sif", 404},
		{"alice-token", "/v2/" + theirs + "/manifests/V1", 200},
		{"alice-token", "/sif/" + theirs + "/V1.sif", 200},
		{"alice-token", "/sif/" + shared.Digest + ".sif", 200},
		{"alice-token", "/v2/x--616c696365/ana/manifests/v1", 404}, // alice in digits is nobody
		{"alice-token", "/v2/x--zz/ana/manifests/v1", 404},
		{"alice-token", "/v2/ana/manifests/v1", 404},
		{"alice-token", "/v2/alice/../bob/tools/manifests/v1", 400},
		{"alice-token", "/v2/alice/ana/manifests/..%2f..%2fkeys", 404},
		{"alice-token", "/sif/..%2fdocuments", 400},
		{"bob-token", "/v2/alice/ana/manifests/v1", 404},
		{"bob-token", "/v2/bob/tools/manifests/latest", 200},

		{own, "/v2/", 200},
		{own, "/v2/environment/manifests/" + digitsOf(mine.Digest), 200},
		{own, "/v2/environment/blobs/" + tail, 200},
		{own, "/sif/" + mine.Digest, 200},
		{own, "/sif/" + unnamed.Digest, 404}, // of the same owner
		{own, "/v2/environment/manifests/" + digitsOf(unnamed.Digest), 404},
		{own, "/v2/environment/blobs/" + bobsTail, 404},
		{own, "/v2/alice/ana/manifests/v1", 404},
		{ended, "/sif/" + mine.Digest, 403},
		{forged, "/sif/" + mine.Digest, 403},
		{elsewhere, "/sif/" + mine.Digest, 403},
		{gone, "/sif/" + mine.Digest, 403},
		{"eyJ..", "/v2/", 403},
		{"eyJ.%%%.", "/v2/", 403},
		{runs, "/sif/" + mine.Digest, 200},
		{runs, "/sif/" + other.Digest, 404},
		{ran, "/sif/" + mine.Digest, 403},
	} {
		if status, body := d.ask(tc.password, tc.path); status != tc.status {
			t.Errorf("%.24q asks for %s: %d, not %d: %.200q", tc.password, tc.path, status, tc.status, body)
		}
	}
}

func (d *blobStoreOf) document(digest string) manifest.Document {
	d.t.Helper()
	p, err := d.library.Parts(digest)
	d.must(err)
	return p.Document
}

// TestDocumentsLeadToAllTheirContent: whatever a document names can be got, and has its digest.
func TestDocumentsLeadToAllTheirContent(t *testing.T) {
	d := newBlobStore(t)
	first := d.freeze("alice", "ana", "v1", "first")
	e := d.freeze("alice", "ana", "v1", "second")
	d.freeze("alice", "ana", "", "third")
	const base = "/v2/alice/ana"
	if status, _ := d.ask("alice-token", base+"/manifests/v1"); status != 503 {
		t.Errorf("before it is signed: %d", status)
	}
	d.settle(first)
	d.settle(e)
	status, body := d.ask("alice-token", base+"/manifests/v1")
	index, err := oci.Parse(body)
	if d.must(err); status != 200 || len(index.Images()) != 1 || index.Images()[0].Environment.Digest.String() != e.Digest || index.Images()[0].SIF == nil {
		t.Fatalf("the tag has %d %s", status, body)
	}
	for _, m := range index.Manifests {
		status, body := d.ask("alice-token", base+"/manifests/"+m.Digest.String())
		doc, err := oci.Parse(body)
		if d.must(err); status != 200 || blob.Digest(body) != m.Digest.String() {
			t.Errorf("%s: %d", m.Digest, status)
		}
		for _, b := range doc.Blobs() {
			status, content := d.ask("alice-token", base+"/blobs/"+b.Digest.String())
			if status != 200 || int64(len(content)) != b.Size || blob.Digest(content) != b.Digest.String() {
				t.Errorf("%s: %d with %d bytes", b.Digest, status, len(content))
			}
		}
	}
	if status, again := d.ask("alice-token", base+"/manifests/"+blob.Digest(body)); status != 200 || string(again) != string(body) {
		t.Errorf("the index by its digest: %d", status)
	}
	if status, _ := d.ask("alice-token", base+"/manifests/"+first.Digest); status != 200 {
		t.Errorf("what the tag named before: %d", status)
	}
	var tags struct{ Tags []string }
	_, body = d.ask("alice-token", base+"/tags/list")
	if d.must(json.Unmarshal(body, &tags)); !slices.Equal(tags.Tags, []string{"latest", "v1"}) {
		t.Errorf("tags %q", tags.Tags)
	}
	for token, repository := range map[string]string{"alice-token": "alice/none", "bob-token": "alice/ana"} {
		if status, body := d.ask(token, "/v2/"+repository+"/tags/list"); status != 404 || !strings.Contains(string(body), "NAME_UNKNOWN") {
			t.Errorf("tags of %s: %d %s", repository, status, body)
		}
	}
	if status, body := d.ask("bob-token", "/v2/environment/tags/list"); status != 200 {
		t.Errorf("tags of nothing: %d %s", status, body)
	}
	d.referrers(base, e.Digest)
}

// referrers follows an environment to what was said about it.
func (d *blobStoreOf) referrers(base, digest string) {
	d.t.Helper()
	_, body := d.ask("alice-token", base+"/referrers/"+digest)
	found, err := oci.Parse(body)
	if d.must(err); len(found.Manifests) != 1 {
		d.t.Fatalf("referrers %s", body)
	}
	_, body = d.ask("alice-token", base+"/manifests/"+found.Manifests[0].Digest.String())
	about, err := oci.Parse(body)
	if d.must(err); about.Subject == nil || about.Subject.Digest.String() != digest {
		d.t.Fatalf("it is about %s", body)
	}
	_, envelope := d.ask("alice-token", base+"/blobs/"+about.Layers[0].Digest.String())
	if _, _, err := d.keys.Verify(envelope, digest); err != nil {
		d.t.Error(err)
	}
}

func TestATamperedImageIsNotServed(t *testing.T) {
	d := newBlobStore(t)
	e := d.freeze("alice", "ana", "v1", "x")
	d.settle(e)
	if status, _ := d.ask("alice-token", "/sif/"+e.Digest); status != 200 {
		t.Errorf("untouched: status %d", status)
	}
	file := filepath.Join(d.dir, "library", "blobs", digitsOf(e.Digest)+".sif")
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	d.must(err)
	_, err = f.WriteAt([]byte("evil"), 40000)
	d.must(err, f.Close())
	tail := d.document(e.Digest).Tail.Digest
	for _, path := range []string{"/sif/" + e.Digest, "/v2/alice/ana/blobs/" + tail} {
		if status, body := d.ask("alice-token", path); status == 200 {
			t.Errorf("%s gives %d bytes", path, len(body))
		}
	}
}

// TestApptainerRunsWithAJobsCredential: the real one, over HTTP, as a worker node would.
func TestApptainerRunsWithAJobsCredential(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Apptainer)
	d := newBlobStore(t)
	e, other := d.freeze("alice", "ana", "v1", "from the service"), d.freeze("alice", "ana", "v2", "another")
	d.settle(e)
	d.settle(other)
	host := registrytest.Serve(t, d.handler())
	env := []string{"APPTAINER_DOCKER_USERNAME=job", "APPTAINER_DOCKER_PASSWORD=" + d.job("j-1", e.Digest, spawner.Running)}
	out := registrytest.Apptainer(t, t.TempDir(), env, "exec", "--no-https", "oras://"+host+"/environment:"+digitsOf(e.Digest), "cat", "/greeting")
	if out != "from the service" {
		t.Errorf("it says %q", out)
	}
	for _, ref := range []string{"/environment:" + digitsOf(other.Digest), "/alice/ana:v2"} {
		if out, err := registrytest.TryApptainer(t, t.TempDir(), env, "exec", "--no-https", "oras://"+host+ref, "cat", "/greeting"); err == nil {
			t.Errorf("%s says %q", ref, out)
		}
	}
	env = []string{"APPTAINER_DOCKER_USERNAME=alice", "APPTAINER_DOCKER_PASSWORD=alice-token"}
	if out := registrytest.Apptainer(t, t.TempDir(), env, "exec", "--no-https", "oras://"+host+"/alice/ana:v2", "cat", "/greeting"); out != "another" {
		t.Errorf("it says %q", out)
	}
}

// TestRepositoryWordsAreDifferent: two names never stand for one repository.
func TestRepositoryWordsAreDifferent(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{
		"alice", "Alice", "alice.b", "alice..b", "a_b", "a__b", "a___b", "-a", "a-", "a--b", "x--6161", "aa", "@cern/alice", "größe", "a/b", "x--", "x-a", " ", "\x00",
	} {
		word := repositoryWord(name)
		if !plainWord.MatchString(word) || seen[word] != "" {
			t.Errorf("%q and %q are %q", name, seen[word], word)
		}
		seen[word] = name
		if back, ok := nameOfWord(word); !ok || back != name {
			t.Errorf("%q comes back as %q", name, back)
		}
	}
	for _, word := range []string{"", "x--", "x--6", "x--AA", "x--616c696365", "Alice", "a/b", "..", "x--61"} {
		if name, ok := nameOfWord(word); ok {
			t.Errorf("%q is %q", word, name)
		}
	}
}

// TestAMovedTagIsNotServed: who may read what a tag stood for and not what it stands for now, gets nothing by it.
func TestAMovedTagIsNotServed(t *testing.T) {
	d := newBlobStore(t)
	early, now := d.freeze("alice", "ana", "v1", "early"), d.freeze("alice", "ana", "v1", "now")
	d.settle(early)
	d.settle(now)
	d.share("alice", early.Digest)
	for _, tc := range []struct {
		who, path string
		want      int
	}{
		{"alice", "/v2/alice/ana/manifests/v1", 200}, {"alice", "/v2/alice/ana/manifests/latest", 200},
		{"bob", "/v2/alice/ana/manifests/v1", 404}, {"bob", "/v2/alice/ana/manifests/latest", 404},
		{"bob", "/v2/environment/manifests/" + digitsOf(early.Digest), 200}, {"bob", "/v2/environment/manifests/" + digitsOf(now.Digest), 404},
	} {
		if got, _ := d.ask(tc.who+"-token", tc.path); got != tc.want {
			t.Errorf("%s: %s: %d", tc.who, tc.path, got)
		}
	}
	d.share("alice", now.Digest)
	if got, _ := d.ask("bob-token", "/v2/alice/ana/manifests/v1"); got != 200 {
		t.Errorf("it is shared: %d", got)
	}
}
