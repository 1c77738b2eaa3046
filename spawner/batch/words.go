// Package batch has what backends of batch systems share, such as those of HTCondor and Slurm.
package batch

import (
	"strings"
	"unicode"
)

// The most bytes of a batch system's words that are shown. Some of them are other users' or other sites'.
const (
	MaxName   = 255
	MaxReason = 400
)

// OneLine makes a text one line, of at most so many bytes, that disturbs no terminal.
func OneLine(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.TrimSpace(strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), unicode.IsControl), " "))
}
