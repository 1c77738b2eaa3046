package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/sif"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func fakeFrozen(digit string) frozen {
	return frozen{Digest: blob.Prefix + strings.Repeat(digit, 64), Size: 1, Own: 1, Base: Base{"b", "sha256:1"}}
}

func put(t *testing.T, l *Library, owner, name, tag, note, digit string) Environment {
	t.Helper()
	e, err := l.enter(Request{Owner: owner, Name: name, Tag: tag, Note: note, Key: "s"}, fakeFrozen(digit))
	must(t, err)
	return e
}

func TestGet(t *testing.T) {
	l := newLibrary(t)
	put(t, l, "alice", "ana", "v1", "", "1")
	put(t, l, "alice", "ana", "v2", "", "2")
	put(t, l, "alice", "ana", "v1", "", "3") // v1 moves on
	put(t, l, "alice", "", "", "", "5")
	put(t, l, "Alice", "secret", "", "", "9")
	must(t, os.WriteFile(l.dir.Path("records", "alice", strings.Repeat("6", 64)+".json"), []byte("{"), 0o600))
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
		e, err := l.Get("alice", tc.ref)
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
	if all, err := l.List("alice"); err != nil || len(all) != 4 || all[0].Digest != fakeFrozen("5").Digest {
		t.Errorf("List = %d environments, %v", len(all), err)
	}
	if all, err := l.List("nobody"); err != nil || len(all) != 0 {
		t.Errorf("List(nobody) = %v, %v", all, err)
	}
}

func TestAmbiguousPrefixIsRefused(t *testing.T) {
	l := newLibrary(t)
	for _, last := range []string{"a", "b"} {
		f := frozen{Digest: blob.Prefix + strings.Repeat("7", 63) + last}
		_, err := l.enter(Request{Owner: "alice", Key: "s"}, f)
		must(t, err)
	}
	if _, err := l.Get("alice", "777777"); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "more digits") {
		t.Errorf("err = %v", err)
	}
}

func TestSecondNameOfADigestIsAnotherEntry(t *testing.T) {
	l := newLibrary(t)
	first := put(t, l, "alice", "ana", "v1", "", "1")
	if again := put(t, l, "alice", "ana", "v1", "", "1"); again.Created != first.Created {
		t.Error("an equal freeze wrote a new record")
	}
	put(t, l, "alice", "ana", "v1", "better note", "1")
	put(t, l, "alice", "other", "", "", "1")
	put(t, l, "alice", "ana", "v1", "", "2")
	put(t, l, "alice", "ana", "v1", "", "1") // back again
	if e, err := l.Get("alice", "ana:v1"); err != nil || e.Digest != first.Digest {
		t.Errorf("ana:v1 is %s, %v: the last freeze of that name made %s", e.Digest, err, first.Digest)
	}
	if all, _ := l.List("alice"); len(all) != 3 {
		t.Errorf("%d entries", len(all))
	}
}

func TestEscapeIsInjectiveAlsoWithoutCase(t *testing.T) {
	long := strings.Repeat("é", 200)
	owners := []string{"alice", "Alice", "ALICE", "a=6cice", "..", ".", "../alice", "a/b", "a=2fb", "é", "e\u0301", long, long + "x", strings.Repeat("a", 200), strings.Repeat("a", 201), "~" + libdir.Escape(long)[1:], "\x00", " "}
	seen := map[string]string{}
	for _, owner := range owners {
		file := strings.ToLower(libdir.Escape(owner))
		if old, taken := seen[file]; taken {
			t.Errorf("%q and %q share the file name %q", old, owner, file)
		}
		seen[file] = owner
		if len(file) > 250 || strings.ContainsAny(file, "/.\x00") {
			t.Errorf("%q has the file name %q", owner, file)
		}
	}
}

func TestAnotherOwnersRecordIsNotBelieved(t *testing.T) {
	l := newLibrary(t)
	put(t, l, "bob", "ana", "", "", "1")
	must(t, os.Rename(l.dir.Path("records", "bob"), l.dir.Path("records", "alice")))
	if all, err := l.List("alice"); err != nil || len(all) != 0 {
		t.Errorf("List = %v, %v", all, err)
	}
}

func TestRequestIsChecked(t *testing.T) {
	source := Source{Layers: []string{"/l"}, Upper: "/u", Base: Base{Digest: "sha256:1"}}
	good := Request{Owner: "alice", Key: "s1", Name: "ana", Tag: "v1", Note: "a\nnote", Source: source}
	must(t, good.validate())
	for _, tc := range []struct {
		name, want string
		change     func(*Request)
	}{
		{"owner", "owner: ", func(r *Request) { r.Owner = "" }},
		{"owner not UTF-8", "owner: ", func(r *Request) { r.Owner = "\xff" }},
		{"owner too long", "1 to 255", func(r *Request) { r.Owner = strings.Repeat("é", 256) }},
		{"key", "key: ", func(r *Request) { r.Key = "" }},
		{"name", `name: "Ana" is not valid: use 1 to 64 of`, func(r *Request) { r.Name = "Ana" }},
		{"name with path", "name: ", func(r *Request) { r.Name = "../x" }},
		{"name like a digest", "digests begin so", func(r *Request) { r.Name = "sha256" }},
		{"name with line", "name: ", func(r *Request) { r.Name = "x\n" }},
		{"tag", "tag: ", func(r *Request) { r.Tag = "a b" }},
		{"tag alone", "give a name with it", func(r *Request) { r.Name = "" }},
		{"note too long", "shorten it to 1000", func(r *Request) { r.Note = strings.Repeat("x", 1001) }},
		{"note with escape", "note: ", func(r *Request) { r.Note = "\x1b[2J" }},
		{"upper", "upper directory", func(r *Request) { r.Source.Upper = "" }},
		{"layers", "no layers", func(r *Request) { r.Source.Layers = nil }},
		{"too many layers", "at most 128", func(r *Request) { r.Source.Layers = make([]string, 129) }},
		{"base", "digest is missing", func(r *Request) { r.Source.Base = Base{} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := good
			tc.change(&r)
			if err := r.validate(); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestOpenReapsWhatAKilledServiceLeft(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := filepath.Join(t.TempDir(), "a library")
	l := openLibrary(t, Config{Dir: dir})
	put(t, l, "alice", "ana", "", "", "1")
	point := l.dir.Path("work", "freeze-1", "mount")
	must(t, os.MkdirAll(point, 0o700), write(l.dir.Path("work", "freeze-1", "image.sif"), "half"))
	must(t, write(l.dir.Path("records", "alice", libdir.TempPrefix+"1"), "half"))
	must(t, unix.Mount("test", point, "tmpfs", 0, ""), unix.Mount("test", point, "tmpfs", 0, ""))
	if _, err := Open(Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)}); !errs.Is(err, errs.Conflict) {
		t.Fatalf("a second process opened the library: %v", err)
	}
	// What a killed service was just starting has the lock for a moment more.
	gone, closed := l, make(chan error, 1)
	go func() {
		testenv.Within(testenv.Hang, func() bool { return openAt(t, l.dir.Path("lock")) > 1 })
		closed <- gone.Close()
	}()
	l = openLibrary(t, Config{Dir: dir})
	must(t, <-closed)
	noLeftovers(t, l)
	if all, err := l.List("alice"); err != nil || len(all) != 1 {
		t.Errorf("List = %v, %v", all, err)
	}
	if files, _ := os.ReadDir(l.dir.Path("records", "alice")); len(files) != 1 {
		t.Errorf("%d files in the records", len(files))
	}
}

// openAt counts this process's descriptors of a file.
func openAt(t *testing.T, path string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	for _, fd := range all {
		if to, _ := os.Readlink(fd); to == path {
			n++
		}
	}
	return n
}

func TestOpenRefusesBadRules(t *testing.T) {
	for _, rule := range []string{"", "/", "relative", "/a/../b", "/a//b", "/a/", "/[", "/a/[b"} {
		_, err := Open(Config{Dir: t.TempDir(), Strip: []string{rule}, Logger: slog.New(slog.DiscardHandler)})
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "strip: ") {
			t.Errorf("rule %q: %v", rule, err)
		}
	}
	if _, err := Open(Config{Logger: slog.New(slog.DiscardHandler)}); !errs.Is(err, errs.Invalid) {
		t.Errorf("no directory: %v", err)
	}
}

// TestVerify flips one byte at a time in every part of an image.
func TestVerify(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	l := newLibrary(t)
	e := freeze(t, l, f, nil)
	d, err := l.document(e.Digest)
	must(t, err)
	start := int64(sif.PartitionOffset)
	for name, at := range map[string]int64{
		"head": 10000, "superblock": start + 8, "base": start + 200, "tail": start + d.Base.Cut + 10, "padding": start + d.partition() - 1, "manifest": start + d.partition() + 5,
	} {
		t.Run(name, func(t *testing.T) {
			flip(t, l.dir.Image(e.Digest), at)
			if _, err := l.Verify(t.Context(), e.Digest); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("verify: %v", err)
			}
			if _, err := l.Ready(t.Context(), e.Digest); !errs.Is(err, errs.Conflict) {
				t.Errorf("it may run: %v", err)
			}
			flip(t, l.dir.Image(e.Digest), at)
			if _, err := l.Ready(t.Context(), e.Digest); err != nil {
				t.Errorf("mended, it may not run: %v", err)
			}
		})
	}
	must(t, os.WriteFile(l.dir.Path("documents", libdir.HexOrNone(e.Digest)+".json"), []byte("{}"), 0o600))
	if _, err := l.Verify(t.Context(), e.Digest); !errs.Is(err, errs.Conflict) {
		t.Errorf("another document: %v", err)
	}
	for _, digest := range []string{"", "x", "sha256:", "sha256:../../lock", blob.Prefix + strings.Repeat("0", 64)} {
		if _, err := l.Verify(t.Context(), digest); !errs.Is(err, errs.NotFound) {
			t.Errorf("Verify(%q) = %v", digest, err)
		}
	}
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	must(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b, at)
	must(t, err)
}

func TestCreatedIsNow(t *testing.T) {
	before := time.Now()
	if e := put(t, newLibrary(t), "alice", "a", "", "", "1"); e.Created.Before(before.Add(-time.Second)) || e.Created.After(time.Now()) {
		t.Errorf("created %v", e.Created)
	}
}

// TestRecordsAreReadOnce: what is known of a record's file is found to have changed, and what is done with a record
// does not change it.
func TestRecordsAreReadOnce(t *testing.T) {
	l := newLibrary(t)
	e, err := l.enter(Request{Owner: "alice", Name: "ana", Key: "s"}, fakeFrozen("1"))
	must(t, err)
	hexPart := libdir.HexOrNone(e.Digest)
	path := l.dir.Path("records", "alice", hexPart+".json")
	for range 3 {
		r, err := l.loadRecord("alice", hexPart)
		if err != nil || len(r.Labels) != 1 || r.Labels[0].Name != "ana" {
			t.Fatalf("%+v, %v", r, err)
		}
		r.Labels[0].Name = "changed in memory"
	}
	data, err := os.ReadFile(path)
	must(t, err, os.WriteFile(path, []byte(strings.Replace(string(data), `"ana"`, `"bea"`, 1)), 0o600))
	if r, err := l.loadRecord("alice", hexPart); err != nil || r.Labels[0].Name != "bea" {
		t.Errorf("changed on disk: %+v, %v", r, err)
	}
	if _, err := l.loadRecord("bob", hexPart); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another owner's: %v", err)
	}
	must(t, os.Remove(path))
	if r, err := l.loadRecord("alice", hexPart); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("removed: %+v, %v", r, err)
	}
}

// BenchmarkList lists 2,000 environments of one owner, as each freeze of his does where he has a quota.
func BenchmarkList(b *testing.B) {
	l := newLibrary(b)
	e, err := l.enter(Request{Owner: "alice", Key: "s"}, fakeFrozen("1"))
	must(b, err)
	r, err := l.loadRecord("alice", libdir.HexOrNone(e.Digest))
	must(b, err)
	r.Manifest = l.manifestOf(Request{Source: Source{Base: Base{Reference: "example/base:1"}}})
	for i := range 1999 {
		hexPart := fmt.Sprintf("%064x", i)
		r.Digest = blob.Prefix + hexPart
		data, err := json.Marshal(r)
		must(b, err, os.WriteFile(l.dir.Path("records", "alice", hexPart+".json"), data, 0o600))
	}
	for b.Loop() {
		all, err := l.List("alice")
		if must(b, err); len(all) != 2000 {
			b.Fatal(len(all))
		}
	}
}
