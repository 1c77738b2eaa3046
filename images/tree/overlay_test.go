package tree

import "testing"

// TestHarmlessOverlayMarks: what is passed over says nothing about the tree. A mark that is not known is never
// harmless.
func TestHarmlessOverlayMarks(t *testing.T) {
	for mark, want := range map[string]bool{
		"origin": true, "impure": true, "uuid": true, "nlink": true, "protattr": true,
		"opaque": false, "redirect": false, "metacopy": false, "whiteout": false, "xwhiteouts": false, "override_stat": false,
		"future": false, "": false, "Origin": false,
	} {
		if got := HarmlessOverlayMark(mark); got != want {
			t.Errorf("HarmlessOverlayMark(%q) = %v", mark, got)
		}
	}
}
