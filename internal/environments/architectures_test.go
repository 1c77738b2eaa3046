package environments

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/images/records"
	"slipway/images/registry/registrytest"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// elsewhereArch is an architecture that this host has not.
func elsewhereArch() string {
	if runtime.GOARCH == "arm64" {
		return "amd64"
	}
	return "arm64"
}

// TestATagIsServedForEachArchitecture: the registry's index has an entry for each, the digest of the index leads back
// to it, and Apptainer runs the one for its machine.
func TestATagIsServedForEachArchitecture(t *testing.T) {
	d := newBlobStore(t)
	here := d.freeze("alice", "ana", "v1", "from here")
	there := d.freezeFor(elsewhereArch(), "alice", "ana", "v1", "from there")
	d.settle(here)
	const path = "/v2/alice/ana/manifests/"
	if _, body := d.ask("alice-token", path+"v1"); len(parsed(t, body).Images()) != 1 {
		t.Errorf("one is not signed yet: %s", body)
	}
	d.settle(there)
	for _, tag := range []string{"v1", "latest"} {
		status, body := d.ask("alice-token", path+tag)
		found := parsed(t, body).Images()
		if status != 200 || len(found) != 2 || slices.ContainsFunc(found, func(i oci.Image) bool { return i.SIF == nil }) {
			t.Errorf("%s: %d %s", tag, status, body)
		}
		if status, again := d.ask("alice-token", path+blob.Digest(body)); status != 200 || string(again) != string(body) {
			t.Errorf("%s by its digest: %d", tag, status)
		}
	}
	if status, sif := d.ask("alice-token", "/sif/alice/ana/v1.sif"); status != 200 || blob.Digest(sif) != d.sifOf(here) {
		t.Errorf("the file of the tag: %d, %d bytes", status, len(sif))
	}
	if status, _ := d.ask("alice-token", "/sif/"+there.Digest); status != 200 {
		t.Errorf("the other one: %d", status)
	}
	t.Run("with Apptainer", func(t *testing.T) {
		testenv.Need(t, testenv.Root, testenv.Apptainer)
		env := []string{"APPTAINER_DOCKER_USERNAME=alice", "APPTAINER_DOCKER_PASSWORD=alice-token"}
		host := registrytest.Serve(t, d.handler())
		if out := registrytest.Apptainer(t, t.TempDir(), env, "exec", "--no-https", "oras://"+host+"/alice/ana:v1", "cat", "/greeting"); out != "from here" {
			t.Errorf("it says %q", out)
		}
	})
}

func parsed(t *testing.T, body []byte) oci.Manifest {
	t.Helper()
	m, err := oci.Parse(body)
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return m
}

func (d *blobStoreOf) sifOf(e records.Environment) string {
	d.t.Helper()
	p, err := d.library.Parts(e.Digest)
	d.must(err)
	part, err := p.SIF()
	d.must(err)
	return part.Digest
}

// TestNamesTravelWithTheirArchitectures: a push sends what a name has for each, a pull takes the fitting one, another
// one, or all.
func TestNamesTravelWithTheirArchitectures(t *testing.T) {
	other := elsewhereArch()
	from, to := newBlobStore(t), newBlobStore(t)
	to.trusts(from)
	host, _ := writable(t)
	here, there := from.freeze("alice", "ana", "v1", "here"), from.freezeFor(other, "alice", "ana", "v1", "there")
	sender, receiver := from.newShipper(), to.newShipper()
	push := func(ref, place string) {
		t.Helper()
		done, err := sender.Push(t.Context(), userOf("alice"), ref, hubapi.PushRequest{To: host + place}, quiet)
		if err != nil || done.Index == "" || done.Environment == "" {
			t.Fatalf("%s: %+v, %v", ref, done, err)
		}
	}
	push("ana:v1", "/alice/both:v1")
	push("ana:v1@"+other, "/alice/other:v1")
	for _, tc := range []struct {
		place, name, arch string
		want              []string // digests, the first is what is given
		kind              errs.Kind
	}{
		{"/alice/both:v1", "fitting", "", []string{here.Digest}, 0},
		{"/alice/both:v1", "named", other, []string{there.Digest}, 0},
		{"/alice/both:v1", "all", "all", []string{here.Digest, there.Digest}, 0},
		{"/alice/other:v1", "only", "", []string{there.Digest}, 0},
		{"/alice/other:v1", "none", runtime.GOARCH, nil, errs.Invalid},
		{"/alice/both:v1", "strange", "ppc64le", nil, errs.Invalid},
		{"/alice/both@" + here.Digest, "single", "", []string{here.Digest}, 0},
		{"/alice/both@" + here.Digest, "choice", other, nil, errs.Invalid},
	} {
		e, err := receiver.Pull(t.Context(), userOf("bob"), hubapi.PullRequest{From: host + tc.place, Name: tc.name, Tag: "t", Architecture: tc.arch}, quiet)
		if tc.want == nil {
			if !errs.Is(err, tc.kind) {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err != nil || e.Digest != tc.want[0] {
			t.Errorf("%s: %s, %v", tc.name, e.Digest, err)
			continue
		}
		found, err := to.library.Records.Entries(records.Viewer{Owner: "bob"}, "", tc.name+":t")
		var got []string
		for _, e := range found {
			got = append(got, e.Digest)
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v", tc.name, got, err)
		}
	}
	to.must(to.nothingUnfinished())
	f := receiver.environments
	d, err := f.Details(t.Context(), userOf("bob"), "all:t")
	if err != nil || d.Architecture != runtime.GOARCH || !slices.Equal(d.Architectures, []string{runtime.GOARCH, other}) {
		t.Errorf("%q, %q, %v", d.Architecture, d.Architectures, err)
	}
	if d, err = f.Details(t.Context(), userOf("bob"), "all:t@"+other); err != nil || d.Architecture != other || len(d.Architectures) != 2 {
		t.Errorf("%q, %q, %v", d.Architecture, d.Architectures, err)
	}
	if _, err := f.Find(t.Context(), "main", "bob", "named:t"); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), other) {
		t.Errorf("a job in it: %v", err)
	}
}
