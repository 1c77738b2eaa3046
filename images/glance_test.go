package images

import (
	"strings"
	"testing"

	"slipway/images/blob"
	"slipway/images/inventory"
	"slipway/images/libdir"
	"slipway/internal/errs"
)

// TestGlance: the facts are read when they are new, and when they have changed.
func TestGlance(t *testing.T) {
	l := newLibrary(t)
	digest := fakeFrozen("1").Digest
	write := func(packages int) {
		t.Helper()
		must(t, libdir.WriteJSON(l.dir.Path("facts"), libdir.HexOrNone(digest)+".json", facts{Inventory: inventory.Inventory{
			Packages: make([]inventory.Package, packages), Python: []inventory.Interpreter{{Version: "3.13.5", Default: true}}, CUDA: &inventory.CUDA{Version: "12.8", LeastDriver: "525"},
		}}))
	}
	if _, ok := l.Glance(digest); ok {
		t.Error("nothing is known, and something is told")
	}
	for _, packages := range []int{3, 4} {
		write(packages)
		for range 2 {
			if s, ok := l.Glance(digest); !ok || s != (Summary{packages, "3.13.5", "12.8", "525"}) {
				t.Errorf("%+v, %v", s, ok)
			}
		}
	}
}

// TestManifestsAreBounded: they lie in records, which everybody reads who lists what is shared with her.
func TestManifestsAreBounded(t *testing.T) {
	many := make([]string, maxSkipped+7)
	if got := skipped(many); len(got) != maxSkipped+1 || got[maxSkipped] != "and 7 more" {
		t.Errorf("%d, %q", len(got), got[maxSkipped:])
	}
	if got := skipped(many[:maxSkipped]); len(got) != maxSkipped {
		t.Errorf("%d", len(got))
	}
	if _, err := encodeManifest(Manifest{Mounts: []string{strings.Repeat("m", maxManifest)}}); !errs.Is(err, errs.Invalid) {
		t.Errorf("%v", err)
	}
	if d := (Document{Manifest: Part{blob.Digest(nil), maxManifest + 1}, Tail: Part{blob.Digest(nil), 8192}}); d.check() == nil {
		t.Error("a stranger's is not bounded")
	}
}
