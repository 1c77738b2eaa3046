package paramgrid

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// aNumber is a number as people write it: JSON's, with a plus, and with nothing on one side of the point.
var aNumber = regexp.MustCompile(`\A[+-]?(0|[1-9][0-9]*|[0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z`)

// words are values too: JSON's, and Python's, which tables that pandas has written contain.
var words = map[string]bool{"true": true, "false": true, "null": true, "True": true, "False": true, "None": true}

// PlainText writes text so that a job reads it as text, also where it looks like a number.
func PlainText(text string) string {
	if isLiteral(text) {
		return quoted(text)
	}
	return text
}

// isLiteral reports whether a job reads something other than the text itself: a number, one of the words, or a list,
// an object or a text of JSON.
func isLiteral(text string) bool {
	return words[text] || aNumber.MatchString(text) ||
		text != "" && strings.Contains(`[{"`, text[:1]) && json.Valid([]byte(text))
}

// quoted is text as a string of JSON.
func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string can always be written
	return strings.TrimSuffix(b.String(), "\n")
}
