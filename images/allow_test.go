package images

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/images/records"
	"slipway/internal/errs"
)

// privateKey is one as people have it in a file.
func privateKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// TestAllowedOnceWhileNothingChanges: what the owner has let pass is not asked for again, until something changes or
// she has taken away what came of it.
func TestAllowedOnceWhileNothingChanges(t *testing.T) {
	f, key := newFixture(t, nastyBase), privateKey(t)
	f.change(func(root string) error { return write(filepath.Join(root, "opt/t.pem"), key) })
	l := newLibrary(t)
	ask := func(owner string, allow ...string) (records.Environment, error) {
		return l.Freeze(t.Context(), Request{Owner: owner, Key: "s1", Source: f.source(), Allow: allow})
	}
	refused := func(when, owner string) {
		t.Helper()
		if e, err := ask(owner); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "/opt/t.pem") {
			t.Errorf("%s: %+v, %v", when, e, err)
		}
	}
	refused("never allowed", "alice")
	first, err := ask("alice", "/opt/")
	must(t, err)
	if d := cmp.Diff([]string{"/opt/t.pem"}, first.Manifest.Allowed); d != "" {
		t.Error(d)
	}
	if again, err := ask("alice"); err != nil || !again.Unchanged || again.Digest != first.Digest {
		t.Errorf("nothing has changed: %+v, %v", again, err)
	}
	refused("allowed by another", "bob")
	f.change(func(root string) error { return write(filepath.Join(root, "opt/more"), "more") })
	refused("something has changed", "alice")
	_, err = ask("alice", "/opt/t.pem")
	must(t, err)
	all, err := l.Records.List("alice")
	must(t, err)
	for _, e := range all {
		_, err := l.Records.Remove("alice", e.Digest)
		must(t, err)
	}
	refused("taken away", "alice")
}

// TestAllowIsCheckedFirst: a path that means nothing is refused also where nothing has changed.
func TestAllowIsCheckedFirst(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	freeze(t, l, f, nil)
	for _, path := range []string{"relative/path", "key.pem", ""} {
		req := Request{Owner: "alice", Key: "s1", Source: f.source(), Allow: []string{path}}
		if _, err := l.Freeze(t.Context(), req); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "allow_secret") {
			t.Errorf("%q: %v", path, err)
		}
	}
}
