package images

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/images/blob"
	"slipway/internal/errs"
)

func fakeDigest(digit string) string { return blob.Prefix + strings.Repeat(digit, 64) }

// meaning returns what a reference leads a viewer to: the digit of a fake environment's digest, or the kind of error.
func meaning(l *Library, v Viewer, owner, ref string) string {
	e, err := l.Find(v, owner, ref)
	if err != nil {
		return errs.RowOf(errs.KindOf(err)).Code
	}
	return e.Digest[len(blob.Prefix) : len(blob.Prefix)+1]
}

// TestANameMeansTheSameToAll: a name that was moved leads to nothing but where it was moved to, whoever asks, and
// whatever is shared.
func TestANameMeansTheSameToAll(t *testing.T) {
	l := newLibrary(t)
	put(t, l, "alice", "ana", "v1", "", "1")
	put(t, l, "alice", "ana", "", "", "2")
	put(t, l, "alice", "ana", "v1", "", "3")
	put(t, l, "alice", "early", "", "", "1")
	put(t, l, "carol", "ana", "v1", "", "4")
	alice, bob := Viewer{Owner: "alice"}, Viewer{Owner: "bob"}
	share := func(digit string, with Audience) {
		t.Helper()
		_, err := l.SetShare(alice, fakeDigest(digit), Share{With: with})
		must(t, err)
	}
	share("1", Public)
	for _, tc := range []struct {
		with      Audience // whom the newest is shared with
		ref       string
		hers, his string
	}{
		{Public, "ana:v1", "3", "3"}, {Public, "ana", "3", "3"}, {Public, "ana:", "2", "not_found"}, {Public, "early", "1", "1"},
		{Public, "111111", "1", "1"}, {Public, fakeDigest("1"), "1", "1"},
		{Private, "ana:v1", "3", "not_found"}, {Private, "ana", "3", "not_found"}, {Private, "early", "1", "1"}, {Private, fakeDigest("1"), "1", "1"},
		{Private, "333333", "3", "not_found"},
	} {
		share("3", tc.with)
		if hers, his := meaning(l, alice, "", tc.ref), meaning(l, bob, "alice", tc.ref); hers != tc.hers || his != tc.his {
			t.Errorf("the newest is %s: %s leads its owner to %s, bob to %s", tc.with, tc.ref, hers, his)
		}
	}
	if _, err := l.Find(bob, "alice", "ana:v1"); err == nil || !strings.Contains(err.Error(), "111111111111") {
		t.Errorf("he is not told by what he finds the earlier one: %v", err)
	}
	list, err := l.Shared(bob)
	must(t, err)
	if got := rowsOf(list); !slices.Equal(got, []string{"1 early", "1 ana:v1 (moved)"}) {
		t.Errorf("he sees %q", got)
	}
	if e, err := l.Find(bob, "", fakeDigest("1")); err != nil || e.Name != "early" {
		t.Errorf("by its digest it is called %q, %v", e.Name, err)
	}
}

// rowsOf says what a list shows.
func rowsOf(list []Environment) (out []string) {
	for _, e := range list {
		row := e.Digest[len(blob.Prefix):][:1] + " " + strings.TrimSuffix(e.Name+":"+e.Tag, ":")
		if e.Moved {
			row += " (moved)"
		}
		out = append(out, row)
	}
	return out
}

// TestListNamesEachOnce: of each environment each of its names, once, and whether it leads elsewhere now.
func TestListNamesEachOnce(t *testing.T) {
	l := newLibrary(t)
	put(t, l, "alice", "", "", "", "1")
	put(t, l, "alice", "sec", "", "", "1")
	put(t, l, "alice", "sec", "", "", "2")
	put(t, l, "alice", "ana", "v1", "", "1")
	put(t, l, "alice", "ana", "v1", "", "2")
	put(t, l, "alice", "ana", "v1", "", "1")
	must(t, l.share("alice", "1"))
	want := []string{"1 ana:v1", "2 ana:v1 (moved)", "2 sec", "1 sec (moved)"}
	list, err := l.List("alice")
	must(t, err)
	if diff := cmp.Diff(want, rowsOf(list)); diff != "" {
		t.Error(diff)
	}
	shared, err := l.Shared(Viewer{Owner: "bob"})
	must(t, err)
	if diff := cmp.Diff([]string{"1 ana:v1", "1 sec (moved)"}, rowsOf(shared)); diff != "" {
		t.Error(diff)
	}
}

func (l *Library) share(owner, digit string) error {
	_, err := l.SetShare(Viewer{Owner: owner}, fakeDigest(digit), Share{With: Public})
	return err
}

// TestRemovingANameBringsNoOlderOneBack: what had the name before keeps its digest alone.
func TestRemovingANameBringsNoOlderOneBack(t *testing.T) {
	for _, ref := range []string{"ana:v1", "ana", fakeDigest("2")} {
		l := newLibrary(t)
		put(t, l, "alice", "ana", "v1", "", "1")
		put(t, l, "alice", "ana", "v1", "", "2")
		if _, err := l.Remove("alice", ref); err != nil {
			t.Fatal(err)
		}
		list, err := l.List("alice")
		if must(t, err); !slices.Equal(rowsOf(list), []string{"1 "}) || meaning(l, Viewer{Owner: "alice"}, "", "ana:v1") != "not_found" {
			t.Errorf("rm %s: left are %q", ref, rowsOf(list))
		}
	}
}

// TestTheOneWithoutATag is called by the name and a colon, wherever the name alone could mean another one.
func TestTheOneWithoutATag(t *testing.T) {
	l := newLibrary(t)
	put(t, l, "alice", "sec", "", "", "1")
	put(t, l, "alice", "sec", "v1", "", "2")
	alice := Viewer{Owner: "alice"}
	if alone, untagged := meaning(l, alice, "", "sec"), meaning(l, alice, "", "sec:"); alone != "2" || untagged != "1" {
		t.Errorf("sec is %s, sec: is %s", alone, untagged)
	}
	if _, err := l.Remove("alice", "sec"); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "say which: sec:, sec:v1 (sec: is the one without a tag)") {
		t.Errorf("%v", err)
	}
	_, err := l.Remove("alice", "sec:")
	must(t, err)
	list, err := l.List("alice")
	if must(t, err); !slices.Equal(rowsOf(list), []string{"2 sec:v1"}) {
		t.Errorf("left are %q", rowsOf(list))
	}
}

// TestNamesThatLookLikeDigests: no name hides a digest.
func TestNamesThatLookLikeDigests(t *testing.T) {
	l := newLibrary(t)
	put(t, l, "alice", "ana", "v1", "", "1")
	for _, name := range []string{"222222", "8b833b", strings.Repeat("2", 64)} {
		if _, err := l.Tag("alice", "ana:v1", name, ""); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "digests") {
			t.Errorf("%s: %v", name, err)
		}
		if err := (label{Name: name, Tag: "v1"}).validate(); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s:v1: %v", name, err)
		}
	}
	for _, name := range []string{"22222", "abcdefg", "2022-11", "8b833b-fit"} {
		if _, err := l.Tag("alice", "ana:v1", name, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMadeIsWhenItWasFrozen: a name that it is given later makes it no younger.
func TestMadeIsWhenItWasFrozen(t *testing.T) {
	now := &clock{time.Now().UTC()}
	l := openLibrary(t, Config{Dir: t.TempDir() + "/l", Now: now.now})
	first := put(t, l, "alice", "ana", "v1", "", "1")
	now.at = now.at.Add(time.Hour)
	put(t, l, "alice", "ana", "v2", "", "2")
	now.at = now.at.Add(time.Hour)
	e, err := l.Tag("alice", "ana:v1", "early", "")
	if must(t, err); !e.Created.Equal(first.Created) {
		t.Errorf("made %s, not %s", e.Created, first.Created)
	}
	if _, err := l.Remove("alice", "ana:v1"); err != nil {
		t.Fatal(err)
	}
	e, err = l.Get("alice", "early")
	if must(t, err); !e.Created.Equal(first.Created) || e.Created.After(e.Used) {
		t.Errorf("made %s, used %s", e.Created, e.Used)
	}
	if _, err := l.Tag("alice", "early", "ana", ""); err != nil || meaning(l, Viewer{Owner: "alice"}, "", "ana") != "1" {
		t.Errorf("the name that was given last leads to %s, %v", meaning(l, Viewer{Owner: "alice"}, "", "ana"), err)
	}
}

func TestLongNamesAreNotEchoed(t *testing.T) {
	for _, b := range []label{{Name: strings.Repeat("n", 300)}, {Name: "a", Tag: strings.Repeat("t", 300)}} {
		if err := b.validate(); !errs.Is(err, errs.Invalid) || len(err.Error()) > 200 {
			t.Errorf("%v", err)
		}
	}
}
