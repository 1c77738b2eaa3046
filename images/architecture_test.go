package images

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"slipway/images/records"
	"slipway/internal/errs"
)

// otherArchitecture is one that this host has not.
func otherArchitecture() string {
	if runtime.GOARCH == "arm64" {
		return "amd64"
	}
	return "arm64"
}

// TestANameHoldsAnEntryForEachArchitecture: what one architecture's freeze does to a name leaves the others' entries
// alone, and what is done to the name is done to all of them.
func TestANameHoldsAnEntryForEachArchitecture(t *testing.T) {
	f, other := newFixture(t, nastyBase), otherArchitecture()
	l := newLibrary(t)
	on := func(architecture, content, tag string) records.Environment {
		f.change(func(root string) error { return write(root+"/opt/mine", content) })
		return freeze(t, l, f, func(r *Request) {
			r.Name, r.Tag, r.Source.Config.Architecture = "ana", tag, architecture
		})
	}
	here, there := on(runtime.GOARCH, "here", "v1"), on(other, "there", "v1")
	for ref, want := range map[string]records.Environment{
		"ana:v1": here, "ana": here, "ana:v1@" + other: there, "ana@" + other: there, "ana:v1@" + runtime.GOARCH: here, there.Digest: there,
		there.Digest[7:15]: there, there.Digest + "@" + other: there,
	} {
		if got, err := l.Records.Get("alice", ref); err != nil || got.Digest != want.Digest || got.Moved {
			t.Errorf("%s: %s moved=%t, %v", ref, got.Digest, got.Moved, err)
		}
	}
	if _, err := l.Records.Get("alice", "ana:v1@ppc64le"); !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), "ppc64le") {
		t.Errorf("one that it has not: %v", err)
	}
	if _, err := l.Records.Get("alice", "nobody@ppc64le"); !errs.Is(err, errs.NotFound) {
		t.Errorf("no name: %v", err)
	}
	newer := on(other, "newer", "v1")
	found, err := l.Records.Entries(records.Viewer{Owner: "alice"}, "", "ana:v1")
	if must(t, err); len(found) != 2 || found[0].Digest != here.Digest || found[1].Digest != newer.Digest {
		t.Errorf("%+v", found)
	}
	if err := there.RunsHere(); !errs.Is(err, errs.Invalid) || here.RunsHere() != nil {
		t.Errorf("%v", err)
	}
	if _, err := l.Thaw(t.Context(), newer.Digest); !errs.Is(err, errs.Invalid) {
		t.Errorf("a session from it: %v", err)
	}
	namesOfAll(t, l, here, newer)
	got, err := l.Records.Remove("alice", "ana:v1@"+other)
	if must(t, err); got.Digest != newer.Digest {
		t.Errorf("%+v", got)
	}
	if e, err := l.Records.Get("alice", "ana:v1"); err != nil || e.Digest != here.Digest {
		t.Errorf("the other entry: %+v, %v", e, err)
	}
	if e, err := l.Records.Get("alice", "ana:v1@"+other); err == nil {
		t.Errorf("it is still there: %+v", e)
	}
}

// namesOfAll shares and tags a name: each entry follows.
func namesOfAll(t *testing.T, l *Library, here, there records.Environment) {
	t.Helper()
	_, err := l.Records.SetShare(records.Viewer{Owner: "alice"}, "ana:v1", records.Share{With: records.Public})
	must(t, err)
	e, err := l.Records.Tag("alice", "ana:v1", "ana", "stable")
	if must(t, err); e.Digest != here.Digest || e.Tag != "stable" {
		t.Errorf("%+v", e)
	}
	found, err := l.Records.Entries(records.Viewer{Owner: "bob"}, "alice", "ana:stable")
	must(t, err)
	digests := []string{here.Digest, there.Digest}
	if len(found) != 2 || !slices.Contains(digests, found[0].Digest) || !slices.Contains(digests, found[1].Digest) || found[1].Share.With != records.Public {
		t.Errorf("%+v", found)
	}
	if _, err := l.Records.Remove("alice", "ana:stable"); err != nil {
		t.Error(err)
	}
	if e, err := l.Records.Get("alice", "ana:stable"); err == nil {
		t.Errorf("it is still there: %+v", e)
	}
}
