package inventory

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds a name, a version or another word out of a file. Nothing honest is longer.
const maxText = 512

// text makes a string that is not UTF-8 fit for JSON without making two strings one.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return fmt.Sprintf("%+q", s)
}

// word is a short value out of a metadata file, as it may stand in an inventory: trimmed, one line, bounded.
func word(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	if strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return fmt.Sprintf("%+q", s)
	}
	return text(s)
}

// line makes a path fit to stand within a line for people.
func line(s string) string {
	if strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return fmt.Sprintf("%+q", s)
	}
	return text(s)
}
