// Package apptainer reads what the program Apptainer prints. It must not run it.
package apptainer

import (
	"regexp"
	"strings"
)

// colors are what Apptainer's starter puts around its words, also where nobody sees them as colors.
var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Plain returns output without colors.
func Plain(output string) string { return colors.ReplaceAllString(output, "") }

// Fatal returns the reason that Apptainer prints when it gives up; empty when output has none.
func Fatal(output string) string {
	for line := range strings.Lines(Plain(output)) {
		if _, reason, ok := strings.Cut(line, "FATAL:"); ok {
			return strings.TrimSpace(reason)
		}
	}
	return ""
}
