package images

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/records"
	"slipway/images/sif"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func fakeFrozen(digit string) frozen {
	return frozen{Content: records.Content{
		Digest: blob.Prefix + strings.Repeat(digit, 64), Size: 1, Own: 1, Base: manifest.Base{Reference: "b", Digest: "sha256:1"},
	}}
}

func put(t *testing.T, l *Library, owner, name, tag, note, digit string) records.Environment {
	t.Helper()
	e, err := l.enter(Request{Owner: owner, Name: name, Tag: tag, Note: note, Key: "s"}, fakeFrozen(digit))
	must(t, err)
	return e
}

func TestRequestIsChecked(t *testing.T) {
	source := Source{Layers: []string{"/l"}, Upper: "/u", Base: manifest.Base{Digest: "sha256:1"}}
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
		{"base", "digest is missing", func(r *Request) { r.Source.Base = manifest.Base{} }},
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
	if all, err := l.Records.List("alice"); err != nil || len(all) != 1 {
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
		"head": 10000, "superblock": start + 8, "base": start + 200, "tail": start + d.Base.Cut + 10, "padding": start + d.PartitionSize() - 1, "manifest": start + d.PartitionSize() + 5,
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

// BenchmarkList lists 2,000 environments of one owner, as each freeze of his does where he has a quota.
func BenchmarkList(b *testing.B) {
	l := newLibrary(b)
	e, err := l.enter(Request{Owner: "alice", Key: "s"}, fakeFrozen("1"))
	must(b, err)
	r, err := l.Records.Load("alice", libdir.HexOrNone(e.Digest))
	must(b, err)
	r.Manifest = l.manifestOf(Request{Source: Source{Base: manifest.Base{Reference: "example/base:1"}}})
	for i := range 1999 {
		hexPart := fmt.Sprintf("%064x", i)
		r.Digest = blob.Prefix + hexPart
		data, err := json.Marshal(r)
		must(b, err, os.WriteFile(l.dir.Path("records", "alice", hexPart+".json"), data, 0o600))
	}
	for b.Loop() {
		all, err := l.Records.List("alice")
		if must(b, err); len(all) != 2000 {
			b.Fatal(len(all))
		}
	}
}
