package records

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/internal/errs"
)

func newStore(t testing.TB) *Store {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	return NewStore(Config{Dir: libdir.Dir(t.TempDir()), Logger: log, Now: time.Now, Keep: func(string) {}})
}

func must(t testing.TB, list ...error) {
	t.Helper()
	if err := errors.Join(list...); err != nil {
		t.Fatal(err)
	}
}

func fakeDigest(digit string) string { return blob.Prefix + strings.Repeat(digit, 64) }

func put(t *testing.T, s *Store, owner, name, tag, note, digit string) Environment {
	t.Helper()
	e, _, err := s.Enter(Entry{
		Owner: owner, Label: Label{Name: name, Tag: tag, Note: note, Key: "s"},
		Content: Content{Digest: fakeDigest(digit), Size: 1, Own: 1, Base: manifest.Base{Reference: "b", Digest: "sha256:1"}},
	})
	must(t, err)
	return e
}

// meaning returns what a reference leads a viewer to: the digit of a fake environment's digest, or the kind of error.
func meaning(s *Store, v Viewer, owner, ref string) string {
	e, err := s.Find(v, owner, ref)
	if err != nil {
		return errs.RowOf(errs.KindOf(err)).Code
	}
	return e.Digest[len(blob.Prefix) : len(blob.Prefix)+1]
}

// TestANameMeansTheSameToAll: a name that was moved leads to nothing but where it was moved to, whoever asks, and
// whatever is shared.
func TestANameMeansTheSameToAll(t *testing.T) {
	s := newStore(t)
	put(t, s, "alice", "ana", "v1", "", "1")
	put(t, s, "alice", "ana", "", "", "2")
	put(t, s, "alice", "ana", "v1", "", "3")
	put(t, s, "alice", "early", "", "", "1")
	put(t, s, "carol", "ana", "v1", "", "4")
	alice, bob := Viewer{Owner: "alice"}, Viewer{Owner: "bob"}
	share := func(digit string, with Audience) {
		t.Helper()
		_, err := s.SetShare(alice, fakeDigest(digit), Share{With: with})
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
		if hers, his := meaning(s, alice, "", tc.ref), meaning(s, bob, "alice", tc.ref); hers != tc.hers || his != tc.his {
			t.Errorf("the newest is %s: %s leads its owner to %s, bob to %s", tc.with, tc.ref, hers, his)
		}
	}
	if _, err := s.Find(bob, "alice", "ana:v1"); err == nil || !strings.Contains(err.Error(), "111111111111") {
		t.Errorf("he is not told by what he finds the earlier one: %v", err)
	}
	list, err := s.Shared(bob)
	must(t, err)
	if got := rowsOf(list); !slices.Equal(got, []string{"1 early", "1 ana:v1 (moved)"}) {
		t.Errorf("he sees %q", got)
	}
	if e, err := s.Find(bob, "", fakeDigest("1")); err != nil || e.Name != "early" {
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
	s := newStore(t)
	put(t, s, "alice", "", "", "", "1")
	put(t, s, "alice", "sec", "", "", "1")
	put(t, s, "alice", "sec", "", "", "2")
	put(t, s, "alice", "ana", "v1", "", "1")
	put(t, s, "alice", "ana", "v1", "", "2")
	put(t, s, "alice", "ana", "v1", "", "1")
	must(t, share(s, "alice", "1"))
	want := []string{"1 ana:v1", "2 ana:v1 (moved)", "2 sec", "1 sec (moved)"}
	list, err := s.List("alice")
	must(t, err)
	if diff := cmp.Diff(want, rowsOf(list)); diff != "" {
		t.Error(diff)
	}
	shared, err := s.Shared(Viewer{Owner: "bob"})
	must(t, err)
	if diff := cmp.Diff([]string{"1 ana:v1", "1 sec (moved)"}, rowsOf(shared)); diff != "" {
		t.Error(diff)
	}
}

func share(s *Store, owner, digit string) error {
	_, err := s.SetShare(Viewer{Owner: owner}, fakeDigest(digit), Share{With: Public})
	return err
}

// TestRemovingANameBringsNoOlderOneBack: what had the name before keeps its digest alone.
func TestRemovingANameBringsNoOlderOneBack(t *testing.T) {
	for _, ref := range []string{"ana:v1", "ana", fakeDigest("2")} {
		s := newStore(t)
		put(t, s, "alice", "ana", "v1", "", "1")
		put(t, s, "alice", "ana", "v1", "", "2")
		if _, err := s.Remove("alice", ref); err != nil {
			t.Fatal(err)
		}
		list, err := s.List("alice")
		if must(t, err); !slices.Equal(rowsOf(list), []string{"1 "}) || meaning(s, Viewer{Owner: "alice"}, "", "ana:v1") != "not_found" {
			t.Errorf("rm %s: left are %q", ref, rowsOf(list))
		}
	}
}

// TestTheOneWithoutATag is called by the name and a colon, wherever the name alone could mean another one.
func TestTheOneWithoutATag(t *testing.T) {
	s := newStore(t)
	put(t, s, "alice", "sec", "", "", "1")
	put(t, s, "alice", "sec", "v1", "", "2")
	alice := Viewer{Owner: "alice"}
	if alone, untagged := meaning(s, alice, "", "sec"), meaning(s, alice, "", "sec:"); alone != "2" || untagged != "1" {
		t.Errorf("sec is %s, sec: is %s", alone, untagged)
	}
	if _, err := s.Remove("alice", "sec"); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "say which: sec:, sec:v1 (sec: is the one without a tag)") {
		t.Errorf("%v", err)
	}
	_, err := s.Remove("alice", "sec:")
	must(t, err)
	list, err := s.List("alice")
	if must(t, err); !slices.Equal(rowsOf(list), []string{"2 sec:v1"}) {
		t.Errorf("left are %q", rowsOf(list))
	}
}

// TestNamesThatLookLikeDigests: no name hides a digest.
func TestNamesThatLookLikeDigests(t *testing.T) {
	s := newStore(t)
	put(t, s, "alice", "ana", "v1", "", "1")
	for _, name := range []string{"222222", "8b833b", strings.Repeat("2", 64)} {
		if _, err := s.Tag("alice", "ana:v1", name, ""); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "digests") {
			t.Errorf("%s: %v", name, err)
		}
		if err := (Label{Name: name, Tag: "v1"}).Validate(); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s:v1: %v", name, err)
		}
	}
	for _, name := range []string{"22222", "abcdefg", "2022-11", "8b833b-fit"} {
		if _, err := s.Tag("alice", "ana:v1", name, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMadeIsWhenItWasFrozen: a name that it is given later makes it no younger.
func TestMadeIsWhenItWasFrozen(t *testing.T) {
	s, now := newStore(t), time.Now().UTC()
	s.now = func() time.Time { return now }
	first := put(t, s, "alice", "ana", "v1", "", "1")
	now = now.Add(time.Hour)
	put(t, s, "alice", "ana", "v2", "", "2")
	now = now.Add(time.Hour)
	e, err := s.Tag("alice", "ana:v1", "early", "")
	if must(t, err); !e.Created.Equal(first.Created) {
		t.Errorf("made %s, not %s", e.Created, first.Created)
	}
	if _, err := s.Remove("alice", "ana:v1"); err != nil {
		t.Fatal(err)
	}
	e, err = s.Get("alice", "early")
	if must(t, err); !e.Created.Equal(first.Created) || e.Created.After(e.Used) {
		t.Errorf("made %s, used %s", e.Created, e.Used)
	}
	if _, err := s.Tag("alice", "early", "ana", ""); err != nil || meaning(s, Viewer{Owner: "alice"}, "", "ana") != "1" {
		t.Errorf("the name that was given last leads to %s, %v", meaning(s, Viewer{Owner: "alice"}, "", "ana"), err)
	}
}

func TestLongNamesAreNotEchoed(t *testing.T) {
	for _, b := range []Label{{Name: strings.Repeat("n", 300)}, {Name: "a", Tag: strings.Repeat("t", 300)}} {
		if err := b.Validate(); !errs.Is(err, errs.Invalid) || len(err.Error()) > 200 {
			t.Errorf("%v", err)
		}
	}
}

func TestGet(t *testing.T) {
	s := newStore(t)
	put(t, s, "alice", "ana", "v1", "", "1")
	put(t, s, "alice", "ana", "v2", "", "2")
	put(t, s, "alice", "ana", "v1", "", "3") // v1 moves on
	put(t, s, "alice", "", "", "", "5")
	put(t, s, "Alice", "secret", "", "", "9")
	must(t, os.WriteFile(s.dir.Path("records", "alice", strings.Repeat("6", 64)+".json"), []byte("{"), 0o600))
	for _, tc := range []struct {
		ref, digit string
		kind       errs.Kind
	}{
		{"ana", "3", 0}, {"ana:v1", "3", 0}, {"ana:v2", "2", 0}, {"111111", "1", 0}, {blob.Prefix + strings.Repeat("1", 64), "1", 0},
		{blob.Prefix + "222222", "2", 0}, {"333333", "3", 0}, {"3333333", "3", 0}, {"55555555", "5", 0},
		{"11111", "", errs.NotFound}, {"ana:v3", "", errs.NotFound}, {"", "", errs.NotFound}, {":", "", errs.NotFound}, {"none", "", errs.NotFound},
		{"secret", "", errs.NotFound}, {"999999", "", errs.NotFound}, {blob.Prefix + strings.Repeat("9", 64), "", errs.NotFound},
		{"../Alice/999999", "", errs.NotFound}, {"666666", "", errs.NotFound},
	} {
		e, err := s.Get("alice", tc.ref)
		if tc.digit == "" {
			if !errs.Is(err, tc.kind) {
				t.Errorf("Get(%q) = %s, %v", tc.ref, e.Digest, err)
			}
			continue
		}
		if err != nil || e.Digest != blob.Prefix+strings.Repeat(tc.digit, 64) {
			t.Errorf("Get(%q) = %s, %v; want %s...", tc.ref, e.Digest, err, tc.digit)
		}
	}
	if all, err := s.List("alice"); err != nil || len(all) != 4 || all[0].Digest != fakeDigest("5") {
		t.Errorf("List = %d environments, %v", len(all), err)
	}
	if all, err := s.List("nobody"); err != nil || len(all) != 0 {
		t.Errorf("List(nobody) = %v, %v", all, err)
	}
}

func TestAmbiguousPrefixIsRefused(t *testing.T) {
	s := newStore(t)
	for _, last := range []string{"a", "b"} {
		_, _, err := s.Enter(Entry{Owner: "alice", Label: Label{Key: "s"}, Content: Content{Digest: blob.Prefix + strings.Repeat("7", 63) + last}})
		must(t, err)
	}
	if _, err := s.Get("alice", "777777"); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "more digits") {
		t.Errorf("err = %v", err)
	}
}

func TestSecondNameOfADigestIsAnotherEntry(t *testing.T) {
	s := newStore(t)
	first := put(t, s, "alice", "ana", "v1", "", "1")
	if again := put(t, s, "alice", "ana", "v1", "", "1"); again.Created != first.Created {
		t.Error("an equal freeze wrote a new record")
	}
	put(t, s, "alice", "ana", "v1", "better note", "1")
	put(t, s, "alice", "other", "", "", "1")
	put(t, s, "alice", "ana", "v1", "", "2")
	put(t, s, "alice", "ana", "v1", "", "1") // back again
	if e, err := s.Get("alice", "ana:v1"); err != nil || e.Digest != first.Digest {
		t.Errorf("ana:v1 is %s, %v: the last freeze of that name made %s", e.Digest, err, first.Digest)
	}
	if all, _ := s.List("alice"); len(all) != 3 {
		t.Errorf("%d entries", len(all))
	}
}

func TestAnotherOwnersRecordIsNotBelieved(t *testing.T) {
	s := newStore(t)
	put(t, s, "bob", "ana", "", "", "1")
	must(t, os.Rename(s.dir.Path("records", "bob"), s.dir.Path("records", "alice")))
	if all, err := s.List("alice"); err != nil || len(all) != 0 {
		t.Errorf("List = %v, %v", all, err)
	}
}

func TestCreatedIsNow(t *testing.T) {
	before := time.Now()
	if e := put(t, newStore(t), "alice", "a", "", "", "1"); e.Created.Before(before.Add(-time.Second)) || e.Created.After(time.Now()) {
		t.Errorf("created %v", e.Created)
	}
}

// TestRecordsAreReadOnce: what is known of a record's file is found to have changed, and what is done with a record
// does not change it.
func TestRecordsAreReadOnce(t *testing.T) {
	s := newStore(t)
	e := put(t, s, "alice", "ana", "", "", "1")
	hexPart := libdir.HexOrNone(e.Digest)
	path := s.dir.Path("records", "alice", hexPart+".json")
	for range 3 {
		r, err := s.Load("alice", hexPart)
		if err != nil || len(r.Labels) != 1 || r.Labels[0].Name != "ana" {
			t.Fatalf("%+v, %v", r, err)
		}
		r.Labels[0].Name = "changed in memory"
	}
	data, err := os.ReadFile(path)
	must(t, err, os.WriteFile(path, []byte(strings.Replace(string(data), `"ana"`, `"bea"`, 1)), 0o600))
	if r, err := s.Load("alice", hexPart); err != nil || r.Labels[0].Name != "bea" {
		t.Errorf("changed on disk: %+v, %v", r, err)
	}
	if _, err := s.Load("bob", hexPart); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another owner's: %v", err)
	}
	must(t, os.Remove(path))
	if r, err := s.Load("alice", hexPart); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("removed: %+v, %v", r, err)
	}
}

// TestRecordsAreBounded: whoever lists what is shared with her reads the records of all.
func TestRecordsAreBounded(t *testing.T) {
	s := newStore(t)
	e := put(t, s, "alice", "ana", "v0", "", "1")
	for i := range maxLabels + maxLabels/4 {
		if _, err := s.Tag("alice", e.Digest, "ana", fmt.Sprintf("v%d", i%3)); err != nil {
			t.Fatal(err)
		}
		put(t, s, "alice", "", "", fmt.Sprint("note ", i), "1")
	}
	r, err := s.Load("alice", libdir.HexOrNone(e.Digest))
	if must(t, err); len(r.Labels) != maxLabels {
		t.Errorf("%d labels", len(r.Labels))
	}
	for _, tag := range []string{"v0", "v1", "v2"} {
		if _, err := s.Get("alice", "ana:"+tag); err != nil {
			t.Errorf("the name went with what was forgotten: %v", err)
		}
	}
	r.Labels = nil
	for i := range maxLabels {
		must(t, r.add(Label{Name: "ana", Tag: fmt.Sprint(i)}))
	}
	if err := r.add(Label{Name: "ana", Tag: "another"}); !errs.Is(err, errs.OverQuota) {
		t.Errorf("one name too many: %v", err)
	}
	if err := r.add(Label{Name: "ana", Tag: "7"}); err != nil || len(r.Labels) != maxLabels {
		t.Errorf("a name that it has: %v", err)
	}
	for i := range maxRecords {
		must(t, os.WriteFile(s.dir.Path("records", "alice", fmt.Sprintf("%064x.json", i)), nil, 0o600))
	}
	if _, _, err := s.Enter(Entry{Owner: "alice", Label: Label{Key: "s"}, Content: Content{Digest: fakeDigest("2")}}); !errs.Is(err, errs.OverQuota) {
		t.Errorf("one environment too many: %v", err)
	}
}

// TestUseIsBounded: what a session may say it uses.
func TestUseIsBounded(t *testing.T) {
	many := map[string][]string{}
	for _, c := range "abcdefghi" {
		many["/"+string(c)] = []string{"x"}
	}
	for name, u := range map[string]Use{
		"interpreters": {Imported: many}, "modules": {Imported: map[string][]string{"": make([]string, 501)}},
		"repositories": {CVMFS: make([]string, 101)}, "repository": {CVMFS: []string{"../etc"}}, "long": {Imported: map[string][]string{strings.Repeat("x", 1001): nil}},
		"module": {Imported: map[string][]string{"": {strings.Repeat("x", 101)}}}, "escape": {Imported: map[string][]string{"/x\x1b[31m": nil}},
	} {
		if err := u.Validate(); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	u, more := Use{}.and(Use{CVMFS: []string{"sft.cern.ch"}})
	if !more || u.Waiting || !slices.Equal(u.CVMFS, []string{"sft.cern.ch"}) {
		t.Errorf("%+v", u)
	}
	delete(many, "/i")
	u, _ = u.and(Use{Imported: many})
	if u, more = u.and(Use{Imported: map[string][]string{"/z": {"x"}}}); more || len(u.Imported) != 8 {
		t.Errorf("%d interpreters", len(u.Imported))
	}
}

func FuzzDecodeRecord(f *testing.F) {
	hexPart := strings.Repeat("a", 64)
	f.Add(`{"owner":"alice","digest":"sha256:` + hexPart + `","labels":[{"key":"s1"}]}`)
	f.Add(`{"owner":"bob"}`)
	f.Fuzz(func(t *testing.T, in string) {
		if r, err := decodeRecord([]byte(in), "alice", hexPart); err == nil && (r.Owner != "alice" || r.Digest != blob.Prefix+hexPart || len(r.Labels) == 0) {
			t.Errorf("accepted %+v", r)
		}
	})
}
