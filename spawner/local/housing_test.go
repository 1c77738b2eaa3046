package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/spawner"
)

// TestWhatWasExchangedIsNotBound: between the look at a home or an area and the start somebody has put another in its
// place.
func TestWhatWasExchangedIsNotBound(t *testing.T) {
	w := newWorld(t)
	b := w.backend(t)
	area := func(l *spawner.Launch) string {
		dir := filepath.Join(l.Dir, "area")
		l.Areas = []spawner.Area{{Name: "area", Source: dir, Target: "/area", Write: true}}
		return dir
	}
	for name, tc := range map[string]struct {
		exchange func(l *spawner.Launch) error
		words    string
	}{
		"a home for a link": {func(l *spawner.Launch) error {
			l.Account.HomeDir += ".link"
			return os.Symlink("/etc", l.Account.HomeDir)
		}, "too many levels of symbolic links"},
		"a home for another's": {func(l *spawner.Launch) error { l.Account.HomeDir += ".root"; return os.Mkdir(l.Account.HomeDir, 0o755) }, "is not of user id 54321, but of 0"},
		"a home for nothing":   {func(l *spawner.Launch) error { l.Account.HomeDir += ".gone"; return nil }, "no such file or directory"},
		"an area for a link":   {func(l *spawner.Launch) error { return os.Symlink("/etc", area(l)) }, "too many levels of symbolic links"},
		"a link above the areas": {func(l *spawner.Launch) error {
			dir := area(l)
			l.Areas[0].Source = dir + "/ssl"
			return os.Symlink("/etc", dir)
		}, "too many levels of symbolic links"},
	} {
		t.Run(name, func(t *testing.T) {
			l := w.launch(t)
			must(t, tc.exchange(&l))
			if err := b.Start(t.Context(), l); err == nil || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("Start = %v, want one that says %q", err, tc.words)
			}
			must(t, b.Remove(t.Context(), l.ID))
			if ids, err := b.List(t.Context()); err != nil || len(ids) > 0 {
				t.Errorf("List = %q, %v after a refused start", ids, err)
			}
		})
	}
	w.swept(t)
}
