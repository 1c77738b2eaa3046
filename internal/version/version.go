// Package version says what a program of Slipway was built from. It knows nothing of what the programs do.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// What the linker sets for a release: -X slipway/internal/version.Release=...
var (
	Release  = "development"
	Revision = "" // the commit; with -dirty behind it where the checkout had changes
	Date     = "" // of the commit
)

// Build is what a program was built from. The revision and its date are empty where the build was not told them, and is
// not stamped with those of a checkout.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// This returns this program's build.
func This() Build {
	b := Build{
		Version: Release, Revision: Revision, Date: Date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info, ok := debug.ReadBuildInfo(); ok && Revision == "" {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.time":
				b.Date = s.Value
			}
		}
	}
	return b
}

// String names a build.
func (b Build) String() string { return strings.TrimSpace("version " + b.Version + " " + b.Revision) }

// Same reports whether two programs are of one build. Revisions are compared where both know theirs.
func (b Build) Same(other Build) bool {
	return b.Version == other.Version && (b.Revision == other.Revision || b.Revision == "" || other.Revision == "")
}
