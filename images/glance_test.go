package images

import (
	"testing"

	"slipway/images/inventory"
	"slipway/images/libdir"
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

// TestAManifestNamesFewSockets: a session can make a million.
func TestAManifestNamesFewSockets(t *testing.T) {
	many := make([]string, maxSkipped+7)
	if got := skipped(many); len(got) != maxSkipped+1 || got[maxSkipped] != "and 7 more" {
		t.Errorf("%d, %q", len(got), got[maxSkipped:])
	}
	if got := skipped(many[:maxSkipped]); len(got) != maxSkipped {
		t.Errorf("%d", len(got))
	}
}
