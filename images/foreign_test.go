package images

import (
	"path/filepath"
	"testing"
	"time"
)

// TestAForeignBaseGoesWithItsLastEnvironment: else who pulls and removes again and again would fill the disk, whatever
// his quota.
func TestAForeignBaseGoesWithItsLastEnvironment(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	now := &clock{time.Now()}
	there, here := newPlace(t, "there"), newPlace(t, "here", func(c *Config) { c.Now = now.now })
	e := there.freeze(t, f, nil)
	s := there.send(t, e.Digest)
	s.Unsigned = true
	_, err := here.Adopt(t.Context(), s.Adoption)
	must(t, err)
	now.at = now.at.Add(keepForeign + time.Hour)
	bases := func() int {
		t.Helper()
		_, err := here.Sweep(t.Context(), false)
		list, globbed := filepath.Glob(here.dir.Path("bases", "*.sqfs"))
		must(t, err, globbed)
		return len(list)
	}
	if n := bases(); n != 1 {
		t.Fatalf("%d bases while an environment stands on it", n)
	}
	_, err = here.Records.Remove(s.Owner, e.Digest)
	must(t, err)
	if n := bases(); n != 0 {
		t.Errorf("%d bases when nothing stands on it", n)
	}
	src := f.source()
	src.Base.Digest = e.Base.Digest
	must(t, here.Prepare(t.Context(), src, nil))
	now.at = now.at.Add(keepForeign + time.Hour)
	if n := bases(); n != 1 {
		t.Errorf("%d bases: an image's own is kept for the next freeze", n)
	}
}
