package graft

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// TestMarksOfUsersOverlays: an upper directory that a user's overlay has written gives no tree, whatever it is taken
// for; an attribute on what is the session's own is kept as it is.
func TestMarksOfUsersOverlays(t *testing.T) {
	f := newFixture(t, func(root string) error {
		return errors.Join(write(filepath.Join(root, "usr/dir/old"), "must not come back"), write(filepath.Join(root, "usr/file"), "x"))
	})
	at := func(p string) string { return filepath.Join(f.upper, p) }
	graft := func() (Result, error) {
		return Graft(t.Context(), Config{Base: f.base, Upper: f.upper, Strip: f.strip, Out: io.Discard})
	}
	must(t, write(at("opt/nested/diff/usr/x"), "x"), unix.Setxattr(at("opt/nested/diff/usr"), "user.overlay.opaque", []byte("y"), 0))
	r, err := graft()
	must(t, err)
	n := lookup(r.Root, "opt/nested/diff/usr")
	if n == nil || n.Xattrs == nil || n.Xattrs.List[0].Name != "user.overlay.opaque" {
		t.Errorf("a nested overlay's mark is %+v, want it kept", n)
	}
	must(t, os.MkdirAll(at("usr/dir"), 0o755), write(at("usr/file"), ""))
	for path, name := range map[string]string{"usr/dir": "user.overlay.opaque", "usr/file": "user.overlay.whiteout", "usr": "user.fuseoverlayfs.origin", "": "user.overlay.impure"} {
		must(t, unix.Setxattr(at(path), name, []byte("y"), 0))
		_, err := graft()
		if !errs.Is(err, errs.Conflict) || errors.Is(err, ErrNotSelfContained) || !strings.Contains(err.Error(), "/"+path+" carries "+name) {
			t.Errorf("/%s with %s: %v, want a refusal that no fallback takes", path, name, err)
		}
		must(t, unix.Removexattr(at(path), name))
	}
	_, err = graft()
	must(t, err)
}
