package web

import (
	"net/url"
	"strings"
)

// Climbs reports whether a path has a dot segment, however often it is escaped: nobody knows how often those behind us
// unescape.
func Climbs(escaped string) bool {
	for {
		for _, segment := range strings.FieldsFunc(escaped, func(r rune) bool { return r == '/' || r == '\\' }) {
			if segment == "." || segment == ".." {
				return true
			}
		}
		decoded, err := url.PathUnescape(escaped)
		if err != nil || decoded == escaped {
			return false
		}
		escaped = decoded
	}
}
