package cli

import (
	"strings"
	"testing"

	"slipway/internal/version"
)

func TestPrintVersion(t *testing.T) {
	plain := version.Build{Version: "1.2.3", Go: "go1.26.8", Platform: "linux/amd64"}
	release := plain
	release.Revision, release.Date = "abc", "2026-11-28T19:00:00Z"
	const first = "slipway 1.2.3 (go1.26.8, linux/amd64)\n"
	for want, b := range map[string]version.Build{
		first: plain,
		first + "commit abc, 2026-11-28T19:00:00Z\n": release,
	} {
		var out strings.Builder
		if err := printVersion(&out, b); err != nil || out.String() != want {
			t.Errorf("%q, %v; want %q", out.String(), err, want)
		}
	}
}
