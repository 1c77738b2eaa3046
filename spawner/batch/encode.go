package batch

import (
	"fmt"
	"regexp"
	"strings"
)

// Encode makes any text one of letters, digits and ._@%+-, and never two texts the same: what may be anything is never
// quoted by rules that differ between a batch system's parsers, it has nothing to quote.
func Encode(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._@+-", c) >= 0
}

var (
	// SafePath is what paths may have that stand in a description of a job, where nothing can be quoted.
	SafePath = regexp.MustCompile(`^/[A-Za-z0-9/._+-]*$`)
	// SafeWord is what names may have that stand there.
	SafeWord = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
)
