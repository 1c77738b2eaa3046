// Package version says what a program of Slipway was built from. It knows nothing of what the programs do.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Release is this program's. The linker sets it: -X slipway/internal/version.Release=...
var Release = "development"

// Build is what a program was built from. The revision, and when it was committed, are empty where the build did not
// look at the checkout: releases do.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"`
	Changed  bool   `json:"changed,omitempty"` // the checkout had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// This returns this program's build.
func This() Build {
	b := Build{Version: Release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.time":
				b.Date = s.Value
			case "vcs.modified":
				b.Changed = s.Value == "true"
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
