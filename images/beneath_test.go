package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/images/blob"
	"slipway/images/records"
	"slipway/internal/errs"
)

// TestBeneath: changes over what the library has of an environment's image give what they give over the image itself,
// which may have gone.
func TestBeneath(t *testing.T) {
	f := newFixture(t, nastyBase, nastyTop)
	l := newLibrary(t)
	empty := freeze(t, l, f, func(r *Request) { r.Carried, r.Key = true, "empty" })
	f.change(nastyChanges)
	want := freeze(t, l, f, func(r *Request) { r.Key = "over the image" })
	b, done, err := l.Beneath(t.Context(), empty.Digest)
	must(t, err)
	defer done()
	if _, _, found := b.Directory("/"); !found || b.Has("/no/such/thing") {
		t.Error("it does not know the image")
	}
	src := b.Source
	src.Upper = f.upper
	must(t, os.RemoveAll(f.layers[0]), os.RemoveAll(f.layers[1]))
	got, err := l.Freeze(t.Context(), Request{Owner: "alice", Key: "over the library", Source: src})
	must(t, err)
	if got.Digest != want.Digest {
		t.Errorf("it is %s, over the image it was %s", got.Digest, want.Digest)
	}
	upper := filepath.Join(f.dir, "filled")
	must(t, os.Mkdir(upper, 0o700), b.Fill(t.Context(), upper))
	if _, err := l.Compare(t.Context(), got, src, nil); !errs.Is(err, errs.Missing) {
		t.Errorf("compared with nothing: %v", err)
	}
	if _, _, err := l.Beneath(t.Context(), blob.Prefix+strings.Repeat("0", 64)); !errs.Is(err, errs.NotFound) {
		t.Errorf("beneath nothing: %v", err)
	}
	if all, err := os.ReadDir(l.dir.Path("work")); err != nil || len(all) > 0 {
		t.Errorf("left %v, %v", all, err)
	}
}

// TestCarried: what only carries a session's changes holds what looks like a secret, and nobody vouches for it; what it
// takes the place of makes room for it.
func TestCarried(t *testing.T) {
	f := newFixture(t, nastyBase)
	keys := withKeys(t)
	l := openLibrary(t, Config{Dir: t.TempDir() + "/l", Keys: keys, Quotas: func(owner string) []records.Quota {
		return []records.Quota{{Owners: []string{owner}, Bytes: 1_500_000}}
	}})
	must(t, os.WriteFile(f.upper+"/key", []byte(privateKey(t)), 0o644))
	if _, err := l.Freeze(t.Context(), Request{Owner: "alice", Key: "hers", Source: f.source()}); err == nil {
		t.Error("a secret is published")
	}
	noise(t, f.upper+"/noise", 1<<20)
	first, err := l.Freeze(t.Context(), Request{Owner: "alice", Key: "s1", Source: f.source(), Carried: true})
	must(t, err)
	if l.Statements.Attested(first.Digest) {
		t.Error("the site vouches for it")
	}
	noise(t, f.upper+"/noise", 1<<20)
	if _, err := l.Freeze(t.Context(), Request{Owner: "alice", Key: "s1", Source: f.source(), Carried: true}); !errs.Is(err, errs.OverQuota) {
		t.Errorf("beside the first: %v", err)
	}
	if left, err := l.Room(t.Context(), "alice", first.Digest); err != nil || left != 1_500_000 {
		t.Errorf("in its place there is room for %d, %v", left, err)
	}
	if _, err := l.Freeze(t.Context(), Request{Owner: "alice", Key: "s1", Source: f.source(), Carried: true, Instead: first.Digest}); err != nil {
		t.Errorf("in the place of the first: %v", err)
	}
}

// TestCarriedHome: a home that was part of a session's tree goes on to its next start, and to nobody else.
func TestCarriedHome(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	must(t, os.MkdirAll(f.upper+"/home/alice", 0o755), os.WriteFile(f.upper+"/home/alice/thesis", []byte("draft\n"), 0o600))
	for key, carried := range map[string]bool{"next start": true, "freeze": false} {
		e := freeze(t, l, f, func(r *Request) { r.Key, r.Carried = key, carried })
		b, done, err := l.Beneath(t.Context(), e.Digest)
		must(t, err)
		upper := filepath.Join(f.dir, key)
		must(t, os.Mkdir(upper, 0o700), b.Fill(t.Context(), upper))
		done()
		if _, err := os.Stat(upper + "/home/alice/thesis"); (err == nil) != carried {
			t.Errorf("%s: the home's file: %v", key, err)
		}
	}
}
