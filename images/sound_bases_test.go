package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/images/blob"
	"slipway/images/libdir"
)

// TestASoundBaseIsKnownAfterARestart: the first freeze then need not read it again, unless it was touched, or was
// compared long ago.
func TestASoundBaseIsKnownAfterARestart(t *testing.T) {
	f := newFixture(t, nastyBase, much)
	dir := filepath.Join(t.TempDir(), "l")
	l := openLibrary(t, Config{Dir: dir})
	freeze(t, l, f, nil)
	base := only(t, l, "bases/*.sqfs")
	digest := blob.Prefix + strings.TrimSuffix(filepath.Base(base), ".sqfs")
	must(t, l.Close())

	after := func(wait time.Duration) bool {
		l := openLibrary(t, Config{Dir: dir, Now: func() time.Time { return time.Now().Add(wait) }})
		st, err := libdir.StampAt(base)
		must(t, err)
		known := l.soundBases.Is(digest, st)
		must(t, l.Close())
		return known
	}
	if !after(0) {
		t.Error("a restart forgets that it is sound")
	}
	if after(libdir.CountsFor + time.Hour) {
		t.Error("it is never compared again")
	}
	must(t, os.WriteFile(filepath.Join(dir, "sound-bases.json"), []byte("{"), 0o600))
	if after(0) {
		t.Error("it is known from a note that cannot be read")
	}
	l = openLibrary(t, Config{Dir: dir})
	f.change(nastyChanges)
	freeze(t, l, f, nil)
	must(t, l.Close())
	if !after(0) {
		t.Error("it is not noted anew")
	}
	must(t, os.Chtimes(base, time.Now(), time.Now()))
	if after(0) {
		t.Error("it is known although it was touched")
	}
}
