package version

import "testing"

func TestSame(t *testing.T) {
	ours := Build{Version: "1.2.3", Revision: "abc"}
	for other, want := range map[Build]bool{
		{Version: "1.2.3", Revision: "abc"}:              true,
		{Version: "1.2.3", Revision: "abc", Go: "go1.1"}: true,
		{Version: "1.2.3"}:                               true,
		{Version: "1.2.3", Revision: "def"}:              false,
		{Version: "1.2.4", Revision: "abc"}:              false,
		{}:                                               false,
	} {
		if ours.Same(other) != want || other.Same(ours) != want {
			t.Errorf("%s and %s: the same: %v, want %v", ours, other, !want, want)
		}
	}
}

func TestString(t *testing.T) {
	for b, want := range map[Build]string{
		{Version: "1.2.3", Revision: "abc"}: "version 1.2.3 abc",
		{Version: "development"}:            "version development",
	} {
		if got := b.String(); got != want {
			t.Errorf("%+v is %q, want %q", b, got, want)
		}
	}
}
